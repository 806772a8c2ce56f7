"""Ctrl-C while libraries work that make another error of it, or none."""

import contextlib
import logging
import signal
from types import SimpleNamespace

import pytest

from nibble._interrupt import Watch, heard

pytestmark = pytest.mark.host


class StoppedError(Exception):
    """What a program's own handler may raise."""


@pytest.fixture
def handler():
    """The program's own handler, for the time of a test."""

    def stop(_number, _frame):
        raise StoppedError

    before = signal.signal(signal.SIGINT, stop)
    yield stop
    signal.signal(signal.SIGINT, before)


def as_another_error():
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException as error:
        logging.getLogger("torch.some").error("of no use")
        raise TypeError("failed to unpack") from error


def swallowed():
    with contextlib.suppress(BaseException):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("library", [as_another_error, swallowed])
def test_what_the_handler_raised_comes_out(handler, caplog, library):
    disabled = logging.root.manager.disable
    with pytest.raises(StoppedError), heard():
        library()
    assert caplog.records == []
    assert (signal.getsignal(signal.SIGINT), logging.root.manager.disable) == (handler, disabled)


def test_other_errors_stay_what_they_are(handler, caplog):
    def fail():
        logging.getLogger("torch.some").error("of use")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), heard():
        fail()
    assert [record.message for record in caplog.records] == ["of use"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_call_that_its_callback_made_calls_in_is_asked_again():
    checks = []
    watch = Watch(SimpleNamespace(nibble_set_stop_check=checks.append))
    with watch:
        outer = checks[-1]
        with watch:
            pass
        assert checks[-1] is not outer
        watch.go_on()
        assert checks[-1] is outer
    assert checks[-1] is not outer


def test_an_export_is_interrupted_where_torch_reads_a_size(request):
    # A process that a script started in its background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    import torch

    import nibble

    class Size:
        def __index__(self):
            signal.raise_signal(signal.SIGINT)
            return 2

    class Module(torch.nn.Module):
        def forward(self, x):
            return x + torch.empty_strided((1, Size()), (1, 1))

    with pytest.raises(KeyboardInterrupt):
        nibble.export(Module(), (torch.ones(1, 2),))
    nibble.export(torch.nn.ReLU(), (torch.ones(1, 2),))  # the next one is right
