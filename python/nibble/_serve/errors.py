"""What a client is told when a request fails: a status and one sentence, in the form that OpenAI's clients read."""

from .._native import OF_THE_REQUEST, NibbleError
from .._text.grammar_error import GrammarError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 404: "not_found_error"}


class ApiError(Exception):
    """`param` names the parameter that is wrong, `code` the kind of error for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ):
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry_after = status, message, param, code, retry_after

    @property
    def body(self) -> dict:
        kind = _TYPES.get(self.status) or ("server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def wrong(param: str, message: str, code: str | None = None) -> ApiError:
    """A parameter that cannot be."""
    return ApiError(400, message, param=param, code=code)


def from_nibble(error: NibbleError, param: str | None = None) -> ApiError:
    """What the library says about a request or about itself."""
    if error.code in OF_THE_REQUEST:
        return ApiError(400, str(error), param=error.field if isinstance(error, GrammarError) else param)
    if error.code == "out_of_memory":
        return ApiError(503, str(error), code="out_of_memory", retry_after=1)
    return ApiError(500, str(error), code=error.code)


def device_failed(error: NibbleError) -> ApiError:
    """What ended a request whose device has failed, whatever the failure is called."""
    return ApiError(503, f"{error}; the device is being opened again", code="device_lost", retry_after=1)


def is_panic(error: BaseException) -> bool:
    """Libraries in Rust raise what is no Exception when one of their assertions fails: the request is to blame."""
    return type(error).__name__ == "PanicException"
