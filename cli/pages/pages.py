#!/usr/bin/env python3
"""pages.py FOLDER DLC DLRUN DLDATA: man pages and completions of the programs, written into FOLDER from what they print
by --help.

For a program P: P.1 (man), P (bash), _P (zsh), P.fish. A line of --help that looks like a row and cannot be read is an
error.
"""
import pathlib
import re
import subprocess
import sys

# A row goes on under its last column.
CONTINUED = re.compile(r"\n {28,}(?=\S)")
ROW = re.compile(r"  (\S.*?)(?: {2,}(.*)|$)")
OPTION = re.compile(r"  (?:-(\w), )?(?:--([\w-]+)|-(\w)) ?(\[?=?[A-Z@][^ ]*)?(?: {2,}(.*)|$)")
KEY = re.compile(r"  ([\w.]+) +((?:\w+ or )?\w+) +(\S.*)")


class Option:
    def __init__(self, match, line):
        if not match:
            sys.exit(f"pages.py: no option can be read in: {line}")
        short, self.name, alone, self.argument, self.help = match.groups()
        self.short, self.help = short or alone, self.help or ""
        self.argument = None if (self.argument or "").startswith("[=") else self.argument  # a flag on most days


class Command:
    """A program or one of its commands, as --help describes it."""

    def __init__(self, path, *words):
        done = subprocess.run([path, *words, "--help=all"], text=True, capture_output=True, stdin=subprocess.DEVNULL)
        if done.returncode or not done.stdout:
            sys.exit(f"pages.py: {path} {' '.join(words)} --help=all: {done.returncode} {done.stderr}")
        self.text, _, rest = CONTINUED.sub(" ", done.stdout).partition("\nKeys of every configuration")
        self.keys_head, _, keys = rest.partition("\n\n")
        self.keys, _, self.end = keys.partition("\nEnvironment:\n")
        lines = self.text.splitlines()
        self.options = [Option(OPTION.match(x), x) for x in lines if re.match("  -", x)]
        self.key_rows = [KEY.match(x) for x in self.keys.splitlines() if x.startswith("  ")]
        if None in self.key_rows:
            sys.exit(f"pages.py: a key cannot be read: {self.keys[:300]}")
        rows = re.search(r"^commands:\n((?:  .*\n)+)", self.text, re.M)
        self.words = [ROW.match(r)[1] for r in rows[1].splitlines()] if rows else []
        self.usage = [x.removeprefix("usage:").strip() for x in lines if re.match(r"usage:|       \w", x)]


class Program(Command):
    def __init__(self, path):
        super().__init__(path)
        self.name = pathlib.Path(path).name
        if not self.words:
            sys.exit(f"pages.py: {self.name} --help lists no commands")
        self.commands = {}  # name: (a line, Command)
        for word in self.words:
            self.commands[word] = re.search(rf"^  {word} +(.*)", self.text, re.M)[1], Command(path, word)
        self.version = subprocess.run([path, "--version"], text=True, capture_output=True).stdout.split()[1]
        self.line = re.sub(rf"^{self.name}(:| [\d.]+ -) ", "", self.text.splitlines()[0])
        # Options that a program without a command takes: of dlc and dldata these alone.
        if not self.options:
            self.options = [Option(OPTION.match(x), x)
                            for x in ("  -h, --help  this text", "  --version  print the version")]


# ---- man ----

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def row_of(name, text):
    return f".TP\n\\fB{roff(name)}\\fR\n{roff(text or '')}\n"


def body(text, skip=()):
    """Rows as tagged paragraphs, headings in bold, other indented lines as they are, the rest filled."""
    out, mode = [], ""

    def enter(new):
        nonlocal mode
        if new != mode:
            out.append((".fi\n" if mode == "as it is" else "") +
                       {"as it is": ".PP\n.nf\n", "filled": ".PP\n"}.get(new, ""))
            mode = new

    for line in text.splitlines():
        row = ROW.match(line) if line.startswith("  ") else None
        if any(re.match(s, line) for s in skip):
            continue
        if row and (row[2] or line.startswith("  -")):
            enter("row")
            out.append(row_of(row[1], (row[2] or "").removeprefix("# ")))
        elif line.endswith(":") and len(line) < 40:
            enter("heading")
            out.append(f".PP\n\\fB{roff(line)}\\fR\n")
        elif line:
            enter("as it is" if line[0] == " " else "filled")
            out.append(roff(line) + "\n")
        else:
            enter("")
    enter("")
    return "".join(out)


def keys_of(command):
    out = []
    for line in command.keys.splitlines():
        key = KEY.match(line) if line.startswith("  ") else None
        if key:
            out.append(f".TP\n\\fB{roff(key[1])}\\fR (\\fI{roff(key[2])}\\fR)\n"
                       f"{roff(re.sub(' {2,}', ': ', key[3], count=1))}\n")
        elif line:
            out.append(f".SS {roff(line)}\n")
    return "".join(out)


def man(program, others):
    usage = r"usage:|       \w"
    synopsis = "\n.br\n".join(roff(u) for u in program.usage)
    text, _, environment = program.text.partition("\nEnvironment:\n")
    text = re.sub(r"^commands:\n(?:  .*\n)+", "", text, flags=re.M)
    if text.startswith(f"{program.name}"):
        text = text.partition("\n")[2].strip() or f"{program.name}: {program.line}."
    environment = environment or program.end
    out = [f".\\\" Made from the programs' --help by cli/pages/pages.py.\n.TH {program.name.upper()} 1 \"\" \"dlc "
           f"{program.version}\" \"dlc\"\n"
           f".SH NAME\n{program.name} \\- {roff(program.line)}\n.SH SYNOPSIS\n{synopsis}\n.SH DESCRIPTION\n"
           f"{body(text, [usage])}"
           ".SH COMMANDS\n"]
    for name, (line, command) in program.commands.items():
        out.append(f".SS {program.name} {roff(name)}: {roff(line)}\n" +
                   "".join(f".PP\n\\fB{roff(u)}\\fR\n" for u in command.usage) +
                   body(command.text, [usage]))
        if command.key_rows:
            out.append(".PP\nKeys of the configuration: see\n.BR dlrun (1).\n")
    if program.key_rows:
        out.append(f".SH KEYS\nIn the YAML file or as \\-\\-key=value, with type and default.\n{keys_of(program)}")
    if environment:
        out.append(f".SH ENVIRONMENT\n{body(environment)}")
    out.append(".SH SEE ALSO\n" + ",\n".join(f".BR {o} (1)" for o in others) +
               "\n.PP\nThe documents are installed in share/doc/dlc/docs.\n")
    return re.sub(r"(\.PP\n)+(?=\.(PP|SH|SS|TP|fi))", "", "".join(out))


# ---- completions ----

def words_of(command):
    """What bash offers: --name, --name= where a value follows, keys likewise."""
    words = [f"-{o.short}" for o in command.options if not o.name]
    words += [f"--{o.name}{'=' if o.argument else ''}" for o in command.options if o.name]
    return words + [f"--{k[1]}=" for k in command.key_rows]


def bash(program):
    name, own = program.name, program.key_rows
    rows = "\n".join(f"        {c}) words='{' '.join(words_of(of))}' ;;" for c, (_, of) in program.commands.items())
    second = " ".join(f"{c}) words='{' '.join(of.words)}' ;;" for c, (_, of) in program.commands.items() if of.words)
    first = f"$(compgen -W '{' '.join(program.commands)}' -- \"$cur\")"
    return f"""# bash completion of {name}; made from its --help.
_{name}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} words
    case ${{COMP_WORDS[1]}} in
{rows}
        *) words='{' '.join(words_of(program))}' ;;
    esac
    COMPREPLY=()
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
    elif [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=({first}{' $(compgen -f -- "$cur")' if own else ''})
    elif [[ $COMP_CWORD == 2 ]]; then
        words=
        case ${{COMP_WORDS[1]}} in {second} esac
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    fi
}}
complete -o default -o filenames -F _{name} {name}
"""


def quoted(text):
    """For zsh's _arguments, in single quotes."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_options(command):
    out = []
    for o in command.options:
        spec = f"--{o.name}" if o.name else f"-{o.short}"
        value = f":{quoted(o.argument)}:_files" if o.argument else ""
        out.append(f"'{spec}{'=' if value and o.name else ''}[{quoted(o.help)}]{value}'")
        if o.name and o.short:
            out.append(f"'-{o.short}[{quoted(o.help)}]{value}'")
    out += [f"'--{k[1]}=[{quoted(re.sub(' {2,}', ': ', k[3], count=1))}]:{quoted(k[2])}:_files'"
            for k in command.key_rows]
    out.append(f"'1:command:({' '.join(command.words)})'" if command.words
               and not isinstance(command, Program) else "'*:file:_files'")
    return " \\\n            ".join(out)


def zsh(program):
    name = program.name
    listed = "\n".join(f"        '{c}:{quoted(line)}'" for c, (line, _) in program.commands.items())
    cases = "\n".join(f"        {c})\n            shift words; (( CURRENT-- ))\n            _arguments "
                      f"{zsh_options(of)} ;;"
                      for c, (_, of) in program.commands.items())
    return f"""#compdef {name}
# zsh completion of {name}; made from its --help.
_{name}() {{
    local -a commands=(
{listed}
    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe command commands
        {'_files' if program.key_rows else 'return'}
        return
    fi
    case $words[2] in
{cases}
        *)
            _arguments {zsh_options(program)} ;;
    esac
}}
_{name} "$@"
"""


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_options(name, condition, command):
    for o in command.options:
        flags = (f" -s {o.short}" if o.short else "") + (f" -l {o.name}" if o.name else "")
        yield f"complete -c {name} -n {fish_text(condition)}{flags}{' -r' if o.argument else ''} -d {fish_text(o.help)}"
    for k in command.key_rows:
        text = re.sub(" {2,}", ": ", k[3], count=1)
        yield f"complete -c {name} -n {fish_text(condition)} -l {k[1]} -r -d {fish_text(text)}"


def fish(program):
    name, lines = program.name, [f"# fish completion of {program.name}; made from its --help."]
    names = " ".join(program.commands)
    if not program.key_rows:
        lines.append(f"complete -c {name} -f -n __fish_use_subcommand")
    for c, (line, command) in program.commands.items():
        lines.append(f"complete -c {name} -n __fish_use_subcommand -a {c} -d {fish_text(line)}")
        if command.words:
            lines.append(f"complete -c {name} -f -n '__fish_seen_subcommand_from {c}' -a '{' '.join(command.words)}'")
        lines += fish_options(name, f"__fish_seen_subcommand_from {c}", command)
    lines += fish_options(name, f"not __fish_seen_subcommand_from {names}", program)
    return "\n".join(lines) + "\n"


def main(folder, *paths):
    programs = [Program(p) for p in paths]
    for p in programs:
        others = [o.name for o in programs if o is not p]
        for name, text in ((f"{p.name}.1", man(p, others)), (p.name, bash(p)), (f"_{p.name}", zsh(p)),
                           (f"{p.name}.fish", fish(p))):
            (pathlib.Path(folder) / name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
