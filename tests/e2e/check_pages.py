#!/usr/bin/env python3
"""check_pages.py BUILD: man pages and completions hold what the programs' --help says: man shows the pages without a
warning, and bash, zsh and fish, those that are there, complete words."""
import pathlib
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish

BUILD = pathlib.Path(sys.argv[1]).resolve()
PAGES = BUILD / "cli/pages"
PROGRAMS = ("dlc", "dlrun", "dldata")


def output(*words, **more):
    done = subprocess.run([str(w) for w in words], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          env={**ENV, **more}, cwd=TMP)
    return done.stdout, done.stderr


def help_of(program, *command):
    return output(BUILD / "cli" / program, *command, "--help=all")[0]


def commands_of(program):
    return re.findall(r"^  ([\w-]+) ", help_of(program).partition("commands:\n")[2].partition("\n\n")[0] + "\n", re.M)


def options_of(text):
    """Names that stand in the rows of a help."""
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M)


def keys_of(text):
    return re.findall(r"^  ([\w.]+) ", text.partition("Keys of every")[2].partition("\nEnvironment:")[0], re.M)


def check_man(program):
    shown, warned = output("man", "--warnings", "-l", PAGES / f"{program}.1", MANWIDTH="300", LC_ALL="C")
    check(len(shown.splitlines()) > 30 and not warned, f"{program}.1: {len(shown.splitlines())} lines, {warned[:300]}")
    for command in commands_of(program):
        check(f"{program} {command}: " in shown, f"{program}.1 lacks {command}")
        for option in options_of(help_of(program, command)):
            check(option in shown, f"{program}.1 lacks {option} of {command}")
    for name in options_of(help_of(program)) + (keys_of(help_of(program)) if program == "dlrun" else []):
        check(name in shown, f"{program}.1 lacks {name}")
    check(re.search(rf"^NAME\n +{program} - \w", shown, re.M), f"{program}.1 has no name")


def bash_words(*words):
    """What bash offers for the last of these words."""
    script = ('. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; '
              'compopt() { echo "compopt $*" >&2; }; _$1; printf "%s\\n" "${COMPREPLY[@]}"')
    return output("bash", "-c", script, PAGES / words[0], *words)


def check_bash(program):
    check(bash_words(program, "")[0].split()[:3] == commands_of(program)[:3],
          f"bash: commands of {program}: {bash_words(program, '')}")
    for command in commands_of(program):
        offered = [w.rstrip("=") for w in bash_words(program, command, "--")[0].split()]
        text = help_of(program, command)
        for name in options_of(text) + ["--" + k for k in keys_of(text)]:
            check(name in offered, f"bash: {program} {command} is not offered {name}")


def check_bash_details():
    words, said = bash_words("dlrun", "--num_epo")
    check(words.split() == ["--num_epochs="] and "nospace" in said, f"a key waits for its value: {words} {said}")
    words, said = bash_words("dlc", "compile", "--js")
    check(words.split() == ["--json"] and "nospace" not in said, f"a flag is a word: {words} {said}")
    check(bash_words("dlc", "co")[0].split() == ["compile"], "a command begun")
    pathlib.Path(TMP, "mine.dl").touch()
    check(bash_words("dlrun", "mi")[0].split() == ["mine.dl"], "a model's file")
    check(bash_words("dlc", "cache", "")[0].split() == ["list", "prune", "fill"], "words of a command")
    check(bash_words("dlc", "compile", "mi")[0].split() == [], "files are left to bash's default")


def check_zsh(program):
    """The file loads, and its function asks _arguments for the options of a command."""
    for command in commands_of(program)[:2]:
        script = (f'compdef() {{}}; _arguments() {{ print -rl -- "$@" }}; _describe() {{ print -rl -- "${{(P@)2}}" }}; '
                  f'_files() {{}}; '
                  f'words=({program} {command} --); CURRENT=3; source {PAGES}/_{program}')
        said, warned = output("zsh", "-f", "-c", script)
        check(not warned, f"zsh, {program}: {warned[:300]}")
        for name in options_of(help_of(program, command)):
            check(re.search(rf"^{name}(=|\[)", said, re.M),
                  f"zsh: {program} {command} is not offered {name}: {said[:300]}")
    said, warned = output("zsh", "-f", "-c",
                          script.replace(f"words=({program} {command} --); CURRENT=3",
                                         f"words=({program} ''); CURRENT=2"))
    check([x.partition(":")[0] for x in said.split("\n") if x] == commands_of(program),
          f"zsh: {said[:200]} {warned[:200]}")


def check_fish(program):
    for command in commands_of(program):
        said, warned = output("fish", "--no-config", "-c",
                              f"source {PAGES}/{program}.fish; complete -C '{program} {command} --'",
                              XDG_CONFIG_HOME=TMP, XDG_DATA_HOME=TMP, HOME=TMP)
        offered = {x.split("\t")[0].rstrip("=") for x in said.splitlines()}
        missing = set(options_of(help_of(program, command))) - offered
        check(not missing and not warned, f"fish: {program} {command} is not offered {missing} {warned[:200]}")


for name in PROGRAMS:
    check_bash(name)
    check_man(name) if shutil.which("man") else print("no man")
    check_zsh(name) if shutil.which("zsh") else print("no zsh")
    check_fish(name) if shutil.which("fish") else print("no fish")
check_bash_details()
finish()
