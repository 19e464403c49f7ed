"""Turns text files into one C string constant: embed.py NAME IN... OUT (used by meson at build time)."""
import sys

name, *sources, target = sys.argv[1:]
lines = []
for source in sources:
    with open(source, encoding="utf-8") as f:
        lines += f.read().split("\n")
with open(target, "w", encoding="utf-8") as f:
    f.write(f"extern const char {name}[];\nconst char {name}[] =\n")
    for line in lines:
        f.write('    "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"\n')
    f.write("    ;\n")
