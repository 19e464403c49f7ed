"""Turns a text file into a C string constant: embed.py NAME IN OUT (used by meson at build time)."""
import sys

name, source, target = sys.argv[1:]
with open(source, encoding="utf-8") as f:
    lines = f.read().split("\n")
with open(target, "w", encoding="utf-8") as f:
    f.write(f"extern const char {name}[];\nconst char {name}[] =\n")
    for line in lines:
        f.write('    "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"\n')
    f.write("    ;\n")
