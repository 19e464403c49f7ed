"""The rule of check_house.py on lists of ops."""
import re

# Lists of ops that are rules of these ops alone, where no other op has a meaning.
OP_LISTS = {
    "exports/onnx/keep.c": "ops that ONNX has, in which precisions",
    "exports/pytorch/rules.c": "rules that look at both graphs",
    "ir/attention.h": "the templates of one family",
    "ir/kernel/kernel_fault.c": "the reductions that emitters combine",
}


def faults(files, read):
    """What several ops have in common is a fact of each one's row (the column `facts` of ir/ops.def), so that a new op
    says it: no list of three or more ops, and no range of them. A case of its own for an op is no list."""
    cases, array = re.compile(r"(?:case DL_OP_\w+:\s*){3,}"), re.compile(r"\{\s*(?:DL_OP_\w+,?\s*){3,}\}")
    span = re.compile(r"[<>]=? *DL_OP_\w+")
    names = [n for n in files if n.suffix in {".c", ".h"} and n.parts[0] not in {"tests", "examples", "bench"}]
    used = set()
    for name in names:
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), read(name), flags=re.S)
        if "DL_OP_" not in text:
            continue
        found = [m.group() for pattern in (cases, array, span) for m in pattern.finditer(text)]
        found += [part for part in re.split(r"[;{}?:]", text) if len(re.findall(r"[=!]= DL_OP_\w", part)) >= 3]
        if found and str(name) in OP_LISTS:
            used.add(str(name))
            continue
        for part in found:
            number = text.count("\n", 0, text.index(part) + len(part)) + 1
            ops = ", ".join(re.findall(r"DL_OP_\w+", part))
            yield f"{name}:{number} lists ops, which is a fact of ir/ops.def: {ops}"
    for name in sorted(set(OP_LISTS) - used):
        yield f"{name} has no list of ops that tests/structure/check_house.py lets it have"
    yield len(names)
