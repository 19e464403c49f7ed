#!/bin/sh
# Makes a static library of which nothing but dlc_* can be linked to, so that no name of ours meets one of a program's.
#
#   archive.sh OUT LD OBJCOPY AR FIRST.a OTHER.a...
#
# All of FIRST, and what it needs of the others.
set -e
out=$1 ld=$2 objcopy=$3 ar=$4 first=$5
shift 5
room=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$room"' EXIT
"$ld" -r -o "$room/dlc.o" --whole-archive "$first" --no-whole-archive --start-group "$@" --end-group
"$objcopy" --wildcard --keep-global-symbol='dlc_*' "$room/dlc.o"
rm -f "$out"
"$ar" rcs "$out" "$room/dlc.o"
