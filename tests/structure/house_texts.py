"""The rules of check_house.py on texts that are code: kernels' and names of devices."""
import re

# Of the folders whose files write kernels' texts: those that get a source as a whole, from emitters, tests or kernels/,
# and what a system answers.
WHOLE_SOURCES = {"compiler/cuda/limits.c", "compiler/cuda/emulate.c", "compiler/cuda/nvrtc.c"}


def faults(files, read):
    """Emitted text is not searched: what a later step needs to know of it is marked or recorded where it is written
    (codegen/holes.h). And names that are counted anew are marked wherever a CUDA text has them."""
    search = re.compile(r"\b(strstr|strcasestr|memmem|strchr|strrchr|strpbrk|memchr|strtok|sscanf)\(")
    literal = re.compile(r'"(?:\\.|[^"\\])*"')
    name = re.compile(r"(?<![A-Za-z0-9_$&])(?:[pvlastx]|sums)(?:%d|[0-9](?![A-Za-z0-9_]))")
    count = 0
    for file in files:
        folders = {"compiler/codegen", "compiler/cpu", "compiler/cuda"}
        if file.suffix not in {".c", ".h"} or str(file.parent) not in folders:
            continue
        marked = str(file.parent) != "compiler/cpu" and not file.name.startswith(("merge", "holes"))
        for number, line in enumerate(read(file).splitlines(), 1):
            count += 1
            if search.search(line) and str(file) not in WHOLE_SOURCES:
                yield f"{file}:{number} searches in text: {line.strip()}"
            read_on = marked and not line.strip().startswith(("/*", "*", "#include"))
            for found in literal.findall(line) if read_on else []:
                if name.search(re.sub(r"%s", "\0", found)):
                    yield f"{file}:{number} has a name without marks: {found}"
                if found.count("$") % 2:
                    yield f"{file}:{number} opens a hole that it does not close: {found}"
    yield count


# Where a kind of device is told from others by its name; docs/internals/adding-things.md lists them for a dialect.
DEVICE_WORDS = {
    "ir/plan/plan.c",
    "runtime/cuda/open.c", "runtime/exec/device_open.c", "runtime/setup/device_choice.c",
    "exports/c/c_export.c",  # the CPUs whose code a library holds
}


def devices(files, read):
    """Whether a target or a device is a GPU's is asked by dl_target_is_gpu, so that another kind of GPU is a row."""
    word = re.compile(r'\b(?:strn?cmp|strstr|sscanf|dl_device_begins)\([^;]*?"(?:cpu|cuda)\b')
    count, used = 0, set()
    for file in files:
        if file.suffix not in {".c", ".h"} or file.parts[0] in {"tests", "examples", "bench"}:
            continue
        count += 1
        text = read(file)
        for found in word.finditer(text):
            used.add(str(file))
            if str(file) not in DEVICE_WORDS:
                number = text.count("\n", 0, found.end()) + 1
                yield f"{file}:{number} tells devices by their names: {found.group().splitlines()[-1].strip()}"
    for name in sorted(DEVICE_WORDS - used):
        yield f"{name} tells no devices by their names: take it off DEVICE_WORDS"
    yield count
