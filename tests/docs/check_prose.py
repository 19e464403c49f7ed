#!/usr/bin/env python3
"""Holds the pages for users to their form: lengths of lines, sentences and pages; links; commands.

check_prose.py [PAGE...]     without PAGE: README.md and docs, but for docs/reference and
                             docs/internals (check_reference.py) and docs/notebook

Sentences are those of paragraphs and lists; blocks, tables and headings are none. A name in
backticks is one word. Letters of systems, dates and paths of one machine are refused as well.
The first three pages have few words together. Commands of the tutorial and the guide stand in
blocks of `sh`, which check_docs.py runs; NOT_RUN counts those that it cannot run.
"""
import pathlib
import re
import sys
import tempfile

import check_docs

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs/tutorial"
GUIDE = ROOT / "docs/guide"
OTHERS = [ROOT / "docs/README.md", *(p for name in ("datasets", "compat", "bench")
                                     for p in sorted((ROOT / "docs" / name).glob("*.md")))]
LONGEST_LINE, LONGEST_SENTENCE, MEAN_SENTENCE = 120, 40, 16
MOST_WORDS, MOST_WORDS_TO_START, MOST_LINES_README, MOST_LINES_GUIDE = 1000, 2500, 100, 150
# Commands of the tutorial and the guide that are not run, by why.
NOT_RUN = {"gpu": 14, "slurm": 2, "machines": 17, "root": 6, "network": 4}
PROGRAMS = re.compile(r"(?:\$ |(?:dlc|dlrun|dldata|srun|sbatch|mpirun|meson|scripts/\w+) )")
REFUSED = {r"\b[Ss]ystem [A-E]\b": "a letter of a system",
           r"\b20\d\d-\d\d-\d\d\b|\b\d\d? [A-Z][a-z]+ 20\d\d\b": "a date",
           r"\b(?:behind|beside|way back)\b": "a word of no other project",
           r"/(?:work|home|root)/": "a path of one machine"}
# Words that make persons of files and tables; all pages but the notebook's have few of them together.
PERSONAL = re.compile(r"\b(?:made again|told|says|speaks|whoever|thereof)\b")
MOST_PERSONAL = 15


def prose(text):
    """The page without blocks, tables, headings, comments and pictures."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    lines = ["" if line.startswith(("#", "|", "    ", "![")) else line for line in text.split("\n")]
    text = re.sub(r"`[^`]*`", "NAME", "\n".join(lines))
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def sentences(text):
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", prose(text)):
        for sentence in re.split(r"(?<=[.:?!])\s+", paragraph.strip("- \n")):
            if len(words(sentence)) > 1:
                yield sentence


def words(text):
    return re.findall(r"[\w^'-]+", text)


def prose_faults(text, most_mean):
    """Of lines, words and sentences; these have at most `most_mean` words on average."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            yield f"line {number} has {len(line)} characters"
    for refused, what in REFUSED.items():
        found = re.search(rf".*(?:{refused}).*", prose(text))
        if found:
            yield f"{what}: {found.group().strip()[:100]}"
    lengths = []
    for sentence in sentences(text):
        lengths.append(len(words(sentence)))
        if lengths[-1] > LONGEST_SENTENCE:
            yield f"a sentence of {lengths[-1]} words: {' '.join(sentence.split())[:80]}"
    if not lengths:
        yield "no sentence"
    elif sum(lengths) / len(lengths) > most_mean:
        yield f"sentences have {sum(lengths) / len(lengths):.1f} words on average, {most_mean} are allowed"


def faults(page, text):
    yield from prose_faults(text, MEAN_SENTENCE)
    if page.parent == GUIDE and text.count("\n") > MOST_LINES_GUIDE:
        yield f"{text.count(chr(10))} lines, {MOST_LINES_GUIDE} are allowed"
    if page.parent in (GUIDE, TUTORIAL):
        yield from loose_commands(text)
    yield from link_faults(page, text)
    if page.parent == TUTORIAL and len(text.split()) > MOST_WORDS:
        yield f"{len(text.split())} words with blocks, {MOST_WORDS} are allowed"
    if page == README and text.count("\n") > MOST_LINES_README:
        yield f"{text.count(chr(10))} lines, {MOST_LINES_README} are allowed"


def headings(text):
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def link_faults(page, text):
    """Links to files, and in these to headings."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.M | re.S)):
        path, _, heading = target.partition("#")
        if "://" in target:
            continue
        file = page.parent / path if path else page
        if not file.exists():
            yield f"a link to {target}, which does not exist"
        elif heading and heading not in headings(file.read_text()):
            yield f"a link to {target}, where there is no such heading"


def loose_commands(text):
    """Commands that stand in no block of `sh`, so that nobody runs them."""
    lines, found = check_docs.blocks(text)
    shell = {i for first, end, words in found if words[:1] == ["sh"] for i in range(first, end)}
    files = {i for first, end, words in found if any("file=" in w for w in words)
             for i in range(first, end)}
    inside = {i for first, end, _ in found for i in range(first, end)}
    for i, line in enumerate(lines):
        if i not in shell | files and PROGRAMS.match(line.strip()) and (
                i in inside or line.startswith("    ")):
            yield f"line {i + 1}: a command that is in no block of sh: {line.strip()[:60]}"


def not_run(pages):
    """How many commands are not run, by why."""
    counts = {}
    for page in pages:
        lines, found = check_docs.blocks(page.read_text())
        for first, end, words in found:
            if check_docs.left_out(words):
                why = next(w[8:] for w in words if w.startswith("not-run="))
                counts[why] = counts.get(why, 0) + len(list(check_docs.commands(lines, first, end)))
    return counts


def blind():
    """Plants a fault of each kind into small pages, and yields those that nobody sees."""
    good = "# Title\n\nA short sentence with a [link](train.md).\n\n```sh\n$ dlc check a.dl\n```\n"
    planted = {"nothing": (good, 0), "a long line": (good + "`" + "x" * 121 + "`\n", 1),
               "a date": (good + "\nMeasured on 2001-01-31, it says.\n", 1),
               "a dead link": (good + "\nSee [this](nowhere.md).\n", 1),
               "a long page": (good + "\n" * 150, 1),
               "a letter": (good + "\nAs in system A, it runs.\n", 1),
               "a command of a text block": (good + "\n```text\ndlrun a.yaml\n```\n", 1),
               "a command that is indented": (good + "\n    $ dlrun a.yaml\n", 1)}
    with tempfile.TemporaryDirectory(prefix="dlc_prose_") as folder:
        page = pathlib.Path(folder) / "page.md"
        for what, (text, count) in planted.items():
            found = list(faults(GUIDE / "planted.md", text))
            if len(found) != count:
                yield f"{what}: {count} faults are right, found {found}"
        page.write_text("```sh not-run=gpu\n$ true\n$ true\n```\n")
        if not_run([page]) != {"gpu": 2}:
            yield "commands that are not run"


def main(names):
    pages = [pathlib.Path(n).resolve() for n in names] or [
        README, *sorted(TUTORIAL.glob("*.md")), *sorted(GUIDE.glob("*.md")), *OTHERS]
    failed = 0
    for what in blind():
        failed += 1
        print(f"nobody sees {what}")
    for page in pages:
        for fault in faults(page, page.read_text()):
            failed += 1
            print(f"{page.name}: {fault}")
    if not names:
        first = README, TUTORIAL / "first-run.md", TUTORIAL / "first-model.md"
        start = sum(len(page.read_text().split()) for page in first)
        if start > MOST_WORDS_TO_START:
            failed += 1
            print(f"the first three pages have {start} words, {MOST_WORDS_TO_START} are allowed")
        every = [README, *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "notebook" not in p.parts)]
        personal = {str(p.relative_to(ROOT)): len(PERSONAL.findall(prose(p.read_text()))) for p in every}
        if sum(personal.values()) > MOST_PERSONAL:
            failed += 1
            print(f"told, says, speaks and the like, of which {MOST_PERSONAL} are allowed: "
                  f"{ {page: n for page, n in personal.items() if n} }")
        counts = not_run(p for p in pages if p.parent in (TUTORIAL, GUIDE))
        if counts != NOT_RUN:
            failed += 1
            print(f"commands that are not run: {counts}, and NOT_RUN has {NOT_RUN}")
    print(f"{len(pages)} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
