#!/usr/bin/env python3
"""Holds the pages that users read first to their form: lengths of lines, sentences and pages.

check_prose.py [PAGE...]     without PAGE: README.md, docs/tutorial/*.md; the first three together

Sentences are those of paragraphs and lists; blocks, tables and headings are none. A name in
backticks is one word. Letters of systems, dates and paths of one machine are refused as well.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs/tutorial"
LONGEST_LINE, LONGEST_SENTENCE, MEAN_SENTENCE = 120, 40, 16
MOST_WORDS, MOST_WORDS_TO_START, MOST_LINES_README = 1000, 2500, 100
REFUSED = {r"\b[Ss]ystem [A-E]\b": "a letter of a system",
           r"\b20\d\d-\d\d-\d\d\b|\b\d\d? [A-Z][a-z]+ 20\d\d\b": "a date",
           r"\b(?:behind|beside|way back)\b": "a word of no other project",
           r"/(?:work|home|root)/": "a path of one machine"}


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


def faults(page):
    text = page.read_text()
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
    elif sum(lengths) / len(lengths) > MEAN_SENTENCE:
        mean = sum(lengths) / len(lengths)
        yield f"sentences have {mean:.1f} words on average, {MEAN_SENTENCE} are allowed"
    if len(text.split()) > MOST_WORDS:
        yield f"{len(text.split())} words with blocks, {MOST_WORDS} are allowed"
    if page == README and text.count("\n") > MOST_LINES_README:
        yield f"{text.count(chr(10))} lines, {MOST_LINES_README} are allowed"


def main(names):
    pages = [pathlib.Path(n) for n in names] or [README, *sorted(TUTORIAL.glob("*.md"))]
    failed = 0
    for page in pages:
        for fault in faults(page):
            failed += 1
            print(f"{page.name}: {fault}")
    if not names:
        first = README, TUTORIAL / "first-run.md", TUTORIAL / "first-model.md"
        start = sum(len(page.read_text().split()) for page in first)
        if start > MOST_WORDS_TO_START:
            failed += 1
            print(f"the first three pages have {start} words, {MOST_WORDS_TO_START} are allowed")
    print(f"{len(pages)} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
