"""The words of the house, for check_house.py: the glossary docs/internals/words.md, and counts that may only fall.

faults(files, read, room_of, included): yields a sentence for each fault, and last how much was looked at. With LIST=1
in the environment each counted place is printed, too.
"""
import os
import pathlib
import re

GLOSSARY = "docs/internals/words.md"

# Types that two headers declare under one name; may only shrink.
TWICE = {"dl_kept", "dlr_extent", "dlr_field", "dlr_tile"}

# How many there are today. A count above its ceiling is a fault; one that is more than SLACK below lowers the ceiling.
CEILING = {
    "comments that begin with What, Those, Of, That or Whose": 0,
    "uses of 'behind' in sources (write 'after')": 0,
    "uses of 'beside' in sources (write 'next to', 'in addition to' or 'compared with')": 0,
    "lines of C over 100 characters": 0,
    "lines of Markdown over 120 characters": 0,
    "letters of the five systems (compat/ and docs/compat/ alone name them)": 0,
    "lines of C in cli/, which only opens sessions": 1500,
}
SLACK = 10

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
OPENS_BADLY = re.compile(r"(?:/\*+|//+)[\s*]*(?:What|Those|Of|That|Whose)\b")


def places(pattern, text):
    """The lines in which the pattern begins."""
    return [text.count("\n", 0, m.start()) + 1 for m in re.finditer(pattern, text, re.I)]


def bad_openings(text):
    return [text.count("\n", 0, m.start()) + 1 for m in TOKEN.finditer(text) if OPENS_BADLY.match(m.group())]


def long_lines(text, most):
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > most]


def counted(name, text):
    """The places of this file that count, by the index of CEILING."""
    c, source = name.suffix in {".c", ".h"}, name.suffix in {".c", ".h", ".cu", ".def"}
    page = name.suffix == ".md" and name.parts[:2] != ("docs", "notebook")
    named = name.parts[0] in {"compat", "tests"} or name.parts[:2] in {("docs", "compat"), ("docs", "notebook")}
    return [bad_openings(text) if c else [], places(r"\bbehind\b", text) if source else [],
            places(r"\bbeside\b", text) if source else [], long_lines(text, 100) if c else [],
            long_lines(text, 120) if page else [], [] if named else places(r"\bsystems? [A-E]\b", text),
            range(1, text.count("\n") + 1) if c and name.parts[0] == "cli" else []]


def too_many(counts, ceiling):
    for (what, most), count in zip(ceiling.items(), counts):
        if count > most:
            yield f"{count} {what}, at most {most} (LIST=1 tests/structure/check_house.py words lists them)"
        if count < most - SLACK:
            yield f"{count} {what}: lower the ceiling of {most} in tests/structure/house_words.py"


def types(text):
    """The names dl_..., dlr_... that a header's typedefs declare."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", TOKEN.sub(" ", text), flags=re.M)
    while "{" in text and (flat := re.sub(r"\{[^{}]*\}", " ", text)) != text:
        text = flat
    found = set()
    for declaration in re.findall(r"\btypedef\b([^;]*);", text):
        called = re.search(r"\(\s*\*\s*(dlr?_\w+)\s*\)", declaration)
        while (flat := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", " ", declaration)) != declaration:
            declaration = flat
        found |= {called.group(1)} if called else {m.group(1) for part in declaration.split(",")
                                                   if (m := re.search(r"\b(dlr?_\w+)\s*$", part))}
    return found


def public_headers(files, room_of, included):
    """Headers that a file of another room than their own includes, itself or by such a header."""
    listed, users, includes = set(map(str, files)), {}, {}
    for name in files:
        if name.parts[0] == "tests" or name.suffix not in {".c", ".h", ".l", ".y", ".inc", ".def"}:
            continue
        for _, path in included(name):
            path = path if path in listed else str(name.parent / path)
            users.setdefault(path, set()).add(room_of(str(name)))
            includes.setdefault(str(name), []).append(path)
    found, todo = set(), [h for h, rooms in users.items() if rooms - {room_of(h)}]
    while todo:
        header = todo.pop()
        if header in listed and header not in found:
            found.add(header)
            todo += includes.get(header, [])
    return {h for h in found if h.endswith(".h") and not h.startswith("tests/")}


def rows(page):
    """(line, folder, first cell, file) of each row of the glossary."""
    folder = ""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("## "):
            folder = line[3:].strip()
        cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("| ") else []
        if cells and cells[0] != "name":
            yield number, folder, cells[0], cells[-1] if len(cells) == 4 else None


def glossary(page, listed, declared, public, read):
    """Faults of the glossary. declared: header -> its types; public: those that other rooms see; read: a file's
    text."""
    seen, told = {}, set()
    for line, folder, cell, file in rows(page):
        path, at = f"{folder}/{file}", f"{GLOSSARY}:{line}"
        if file is None:
            yield f"{at} is no row of four cells"
            continue
        if path not in listed:
            yield f"{at} names {path}, which does not exist"
            continue
        known = set(re.findall(r"`(dlr?_\w+)`", cell))
        near = [path] if path.endswith(".h") else [h for h in declared if h.startswith(folder + "/")]
        for name in sorted(known):
            if not any(name in declared[h] for h in near):
                yield f"{at} names {name}, which {path} does not declare"
            told |= {(h, name) for h in near}
        for word in re.findall(r"; today (\w+)$", cell):
            if word not in path and word not in read(path):
                yield f"{at}: {path} has the word {word} no longer"
        for name in known | ({cell.split(";")[0]} if not cell.startswith("`") else set()):
            if name in seen and name not in TWICE:
                yield f"{at}: {name} stands in line {seen[name]}, too"
            seen[name] = line
    for header in sorted(public):
        for name in sorted(declared[header]):
            if (header, name) not in told:
                yield f"{GLOSSARY} has no row for {name} of {header}"
    for name in sorted(TWICE):
        if sum(name in names for names in declared.values()) < 2:
            yield f"{name} has one meaning now: take it off TWICE in tests/structure/house_words.py"


def blind():
    """Plants each kind of fault, and yields those that are not seen."""
    name, page = pathlib.PurePath("a/b.h"), "## a\n\n| name | meaning | elsewhere | where |\n|---|---|---|---|\n"
    text = 'char *s = "/* What */"; /* What a node has. */ // Those\n'
    text += '/*\n * Of x. */ /* Whatever */ int behind; // Beside\n' + "x" * 101
    if [len(p) for p in counted(name, text)] != [3, 1, 1, 1, 0, 0, 0]:
        yield "does not count what it should"
    if [len(p) for p in counted(pathlib.PurePath("docs/a.md"), "behind\n" + "x" * 121)] != [0, 0, 0, 0, 1, 0, 0]:
        yield "does not count long lines of Markdown"
    letters = [counted(pathlib.PurePath(n), "a\n# of systems D and A: x\n")[5] for n in ("models/a.dl", "compat/a.md")]
    if [len(found) for found in letters] != [1, 0]:
        yield "does not count letters of systems"
    if len(counted(pathlib.PurePath("cli/a.c"), "a\nb\n")[6]) != 2:
        yield "does not count lines of cli/"
    if len(list(too_many([11, 0], {"a": 10, "b": 11}))) != 2 or list(too_many([10, 1], {"a": 10, "b": 11})):
        yield "does not hold a ceiling"
    made = types("#define X(a) typedef int dl_no;\n/* typedef int dl_no; */ typedef struct dl_a { struct { int x; } y; "
                 "} dl_a, dl_b;\n"
                 "typedef bool dl_c(int x, dl_a *a);\ntypedef int (*dl_d)(int);\ntypedef DL_ARRAY(dl_a) dl_e;\n"
                 "typedef struct F *dlr_f;")
    if made != {"dl_a", "dl_b", "dl_c", "dl_d", "dl_e", "dlr_f"}:
        yield f"does not find types: {sorted(made)}"

    def found(table):
        return [f
                for f in glossary(page + table, {"a/b.h"}, {"a/b.h": {"dl_x", *TWICE}, "c.h": TWICE}, {"a/b.h"},
                                  lambda _: "")
                if not any(f" {t} " in f for t in TWICE)]

    good = "| `dl_x` | m | - | b.h |\n"
    if found(good):
        yield f"finds faults in a glossary that has none: {found(good)}"
    for what, table in {"a type that is missing": "", "a type twice": good + good,
                        "a file that is not there": good + "| y | m | - | c.c |\n",
                        "a type that is not there": good + "| `dl_y` | m | - | b.h |\n",
                        "a row cut short": good + "| y | m | b.h |\n",
                        "a word that is gone": good + "| y; today gone | m | - | b.h |\n"}.items():
        if len(found(table)) != 1:
            yield f"does not see {what} in the glossary"


def faults(files, read, room_of, included):
    yield from blind()
    listed, totals = set(map(str, files)), [0] * len(CEILING)
    for name in files:
        if name.suffix not in {".c", ".h", ".cu", ".def", ".md", ".dl", ".yaml"}:
            continue
        for i, lines in enumerate(counted(name, read(name))):
            totals[i] += len(lines)
            if os.environ.get("LIST"):
                for line in lines:
                    print(f"{name}:{line}: {list(CEILING)[i]}")
    yield from too_many(totals, CEILING)
    declared = {str(n): types(read(n)) for n in files if n.suffix == ".h" and n.parts[0] != "tests"}
    public = public_headers(files, room_of, included)
    yield from glossary(read(GLOSSARY), listed, declared, public, read)
    yield sum(len(declared[h]) for h in public)
