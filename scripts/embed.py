"""Turns text files into C string constants: embed.py NAME IN... OUT (used by meson at build time).

NAME is the text. NAME_interface is what a caller in another object needs of it: all but the bodies of the functions
that begin with ENTRY at the start of a line (compiler/cpu/library.h). Where SEPARATE is 0 nobody calls these functions,
and compilers warn of static functions that are declared and never defined.
"""
import sys


def without_bodies(lines):
    """A body begins after the first line that ends with a brace, and ends with a brace at the start of a line."""
    inside = head = False
    for line in lines:
        if not inside and not head and line.startswith("ENTRY "):
            head = True
            yield "#if SEPARATE"
        if inside:
            inside = line != "}"
        elif head and line.endswith("{"):
            yield line.removesuffix("{").rstrip() + ";"
            yield "#endif"
            head, inside = False, True
        else:
            yield line


def constant(f, name, lines):
    f.write(f"extern const char {name}[];\nconst char {name}[] =\n")
    for line in lines:
        f.write('    "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"\n')
    f.write("    ;\n")


def main(name, *files):
    *sources, target = files
    lines = []
    for source in sources:
        with open(source, encoding="utf-8") as f:
            lines += f.read().split("\n")
    with open(target, "w", encoding="utf-8") as f:
        constant(f, name, lines)
        if any(line.startswith("ENTRY ") for line in lines):
            constant(f, f"{name}_interface", without_bodies(lines))


main(*sys.argv[1:])
