"""Facts that Apple's kernel has where Linux has files under /proc."""

import contextlib
import ctypes

LONGEST = 256  # bytes of a text


def kernel_value(name: str) -> str:
    """A text of the kernel by its name, as `sysctl` prints it; "" where it has none, and on another
    system.
    """
    text = ctypes.create_string_buffer(LONGEST)
    size = ctypes.c_size_t(LONGEST)
    with contextlib.suppress(AttributeError, OSError):  # no such function
        function = ctypes.CDLL(None).sysctlbyname
        if function(name.encode(), text, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            return text.value.decode("utf-8", "replace")
    return ""
