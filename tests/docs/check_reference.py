#!/usr/bin/env python3
"""Holds docs/reference and docs/internals to their sources and to their form.

    check_reference.py BUILD [--write]      --write puts new tables into the pages

Tables between `<!-- generated: NAME -->` and `<!-- /generated -->` are those of reference.py. Lines
have at most 120 characters, sentences 40 words, 20 on average. Links and named sources lead to files
that exist. Each table of reference.py stands on some page.
"""
import re
import sys

import check_prose
import reference

MEAN_SENTENCE = 20
NEEDED = {"c", "fortran", "python", "keys", "functions", "diagnostics", "exit-statuses", "environment", "help",
          "foreign-formats", "passes", "ops"}


def prose_faults(text):
    return check_prose.prose_faults(text, MEAN_SENTENCE)


def source_faults(text):
    """Sources that a page of docs/internals names."""
    named = re.findall(
        r"(?<![\w/.-])((?:ir|passes|compiler|runtime|frontends|compat|cli|dldata|verify|tests|models)/[\w/.-]+)",
        re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S))
    for name in sorted({n.rstrip(".-/") for n in named}):
        if not (reference.ROOT / name).exists() and "NAME" not in name:
            yield f"{name} does not exist"


def blind(tables):
    """Plants a fault of each kind into a small page, and yields those that nobody sees."""
    page, good = reference.PAGES[0], "# Title\n\nA short sentence with a [link](keys.md#data) and ir/op.c.\n"
    finders = (prose_faults, source_faults, lambda text: check_prose.link_faults(page, text))
    planted = {"nothing": (good, 0), "a long line": (good + "x" * 121, 1),
               "a long sentence": (good + "word " * 41 + ".", 3),
               "a date": (good + "Measured on 2001-01-31, it says.", 1),
               "a dead link": (good + "See [this](nowhere.md).", 1),
               "a heading that is not there": (good + "See [this](keys.md#nowhere).", 1),
               "a source that is not there": (good + "See ir/nowhere.c for it.", 1),
               "a program that is not there": (good + "See cli/nowhere.c for it.", 1)}
    for what, (text, count) in planted.items():
        found = [fault for find in finders for fault in find(text)]
        if len(found) != count:
            yield f"{what}: {count} faults are right, found {found}"
    table = "<!-- generated: exit-statuses -->\n| 1 | old |\n<!-- /generated -->\n"
    if reference.fresh(table, tables) == table or reference.fresh(good, tables) != good:
        yield "a table that is not current"


def main(arguments):
    write = "--write" in arguments
    builds = [a for a in arguments if a != "--write"]
    if len(builds) != 1:
        sys.exit(__doc__)
    tables, failed, seen = reference.Tables(builds[0]), 0, set()
    for fault in blind(tables):
        failed += 1
        print(f"does not see what it should: {fault}")
    for page in reference.PAGES:
        old = page.read_text()
        seen |= {m[2] for m in reference.MARK.finditer(old)}
        new = reference.fresh(old, tables)
        faults = []
        if new != old and write:
            page.write_text(new)
            print(f"{page.name}: tables written")
        elif new != old:
            faults = [f"a table is not that of the sources: {sys.argv[0]} {builds[0]} --write"]
        if page.name != "words.md":
            faults += prose_faults(new)
            faults += source_faults(new)
        faults += check_prose.link_faults(page, new)
        for fault in faults:
            failed += 1
            print(f"{page.name}: {fault}")
    if NEEDED - seen:
        failed += 1
        print(f"no page has the tables {', '.join(sorted(NEEDED - seen))}")
    print(f"{len(reference.PAGES) + len(seen)} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
