#!/usr/bin/env python3
"""Writes the Fortran module from its template: with dlc.h, and the procedures of each kind and rank.

    ranks.py TEMPLATE C_INTERFACE OUTPUT

Fortran 2008 has no dummy argument of any rank, so that a generic name needs a procedure for each.
"""
import itertools
import pathlib
import sys

KINDS = {"real32": ("real(real32)", "dlc_f32"), "real64": ("real(real64)", "dlc_f64"),
         "int32": ("integer(int32)", "dlc_i32"), "int64": ("integer(int64)", "dlc_i64")}
RANKS = range(1, 6)


def constructor(kind, rank):
    name = f"array_{kind}_{rank}"
    return name, f"""
  function {name}(x) result(array)
    {KINDS[kind][0]}, target :: x({', '.join(':' * rank)}) ! no intent: a call may write it later
    type(dlc_array) :: array
    array%dtype = {KINDS[kind][1]}
    array%rank = {rank}
    array%extents(:{rank}) = shape(x, int64)
    array%contiguous = is_contiguous(x)
    if (size(x) > 0) array%at = c_loc(x)
  end function {name}
"""


def dummy(kind, rank, name, intent):
    """An array that is copied where it is not contiguous."""
    return (f"{KINDS[kind][0]}, contiguous, target, intent({intent}) :: "
            f"{name}({', '.join(':' * rank)})")


def method(name, arguments, declared, call):
    return f"""
  subroutine {name}(net, {arguments})
    class(dlc_model), intent(in) :: net
    {(chr(10) + "    ").join(declared)}
    type(dlc_status), intent(out) :: status
    call {call}
  end subroutine {name}
"""


def methods(kind):
    """(generic name, procedure, its text) of a kind."""
    loss, metrics = "real(real64), intent(out) :: loss", "real(real64), intent(out), optional :: metrics(:)"
    for a, b in itertools.product(RANKS, RANKS):
        suffix = f"{kind}_{a}_{b}"
        x, t = dummy(kind, a, "x", "in"), dummy(kind, b, "t", "in")
        yield "predict", f"predict_{suffix}", method(
            f"predict_{suffix}", "x, y, status", [x, dummy(kind, b, "y", "inout")],
            "net%predict([dlc_array(x)], [dlc_array(y)], status)")
        yield "train_step", f"train_{suffix}", method(
            f"train_{suffix}", "x, t, loss, status", [x, t, loss],
            "net%train_step([dlc_array(x)], [dlc_array(t)], loss, status)")
        yield "evaluate", f"evaluate_{suffix}", method(
            f"evaluate_{suffix}", "x, t, loss, status, metrics", [x, t, loss, metrics],
            "net%evaluate([dlc_array(x)], [dlc_array(t)], loss, status, metrics)")
    for rank in RANKS:
        for verb, intent in (("get", "inout"), ("set", "in")):
            yield verb, f"{verb}_{kind}_{rank}", method(
                f"{verb}_{kind}_{rank}", "name, values, status",
                ["character(len=*), intent(in) :: name", dummy(kind, rank, "values", intent)],
                f"net%{verb}(name, dlc_array(values), status)")


def main(template, c_interface, output):
    bound, constructors, contained = [], [], []
    for kind, rank in itertools.product(KINDS, RANKS):
        name, text = constructor(kind, rank)
        constructors.append(f"    module procedure :: {name}\n")
        contained.append(text)
    for kind in ("real32", "real64"):
        for generic, name, text in methods(kind):
            bound.append(f"    procedure, private :: {name}\n    generic :: {generic} => {name}\n")
            contained.append(text)
    text = pathlib.Path(template).read_text()
    interface = [pathlib.Path(c_interface).read_text()]
    for mark, lines in (("bound", bound), ("constructors", constructors), ("c_interface", interface),
                        ("contained", contained)):
        before, found, after = text.partition(f"!@{mark}@\n")
        assert found, f"{template} has no mark {mark}"
        text = before.rstrip(" ") + "".join(lines).lstrip("\n") + after
    pathlib.Path(output).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
