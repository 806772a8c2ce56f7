"""What libraries say while Nibble exports is hidden, and nothing of that outlasts it."""

import logging
import warnings

import pytest

from nibble._quiet import quiet

pytestmark = pytest.mark.host


def test_warnings_and_their_logs_are_hidden_but_errors_are_not(caplog):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with quiet():
            warnings.warn("of no use", stacklevel=1)
            logging.getLogger("torch.some").warning("of no use")
            logging.warning("of no use")
            logging.getLogger("torch.some").error("of use")
    assert seen == []
    assert [record.message for record in caplog.records] == ["of use"]


def test_everything_is_as_before_even_after_an_error(caplog):
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.root.manager.disable, warnings.filters[:]

    def meddle():
        with quiet():
            root.addHandler(logging.NullHandler())
            root.setLevel(logging.DEBUG)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        meddle()
    assert (root.handlers, root.level, logging.root.manager.disable, warnings.filters[:]) == before
    logging.getLogger("mine").warning("heard again")
    assert caplog.records[-1].message == "heard again"
