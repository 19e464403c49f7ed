"""What the oracles of files share: counting checks, of which the first that fails ends the test, and PyTorch's age."""
import sys

passed = 0


def check(condition, what):
    global passed
    if not condition:
        sys.exit(f"failed: {what}")
    passed += 1


def finish():
    print(f"{passed} passed, 0 failed")


def is_modern(torch):
    """Knows unsigned types and reads files without running what they say (2.3)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 3)
