"""The results of bench/gpu as Markdown, and in one line."""

KERNELS = 12  # rows of a model's list of kernels


def table(head, rows):
    line = "| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n"
    return line + "".join("| " + " | ".join(str(c).replace("|", "/").replace("\n", " ") for c in row) + " |\n"
                          for row in rows) + "\n"


def state(found):
    if "wrong" in found:
        return f"WRONG: {found['wrong']}"
    return f"left out: {found['left_out']}" if "left_out" in found else "agrees"


def is_whole(found):
    return "samples_per_s" in found


def best_rival(report, name):
    """The fastest way of PyTorch's, or None."""
    ways = report.get("rivals", {}).get(name, {})
    ran = {way: found
           for way, found in ways.items() if isinstance(found, dict)
           and "samples_per_s" in found} if isinstance(ways, dict) else {}
    way = max(ran, key=lambda w: ran[w]["samples_per_s"], default=None)
    return (way, ran[way]) if way else None


def mib(n):
    return f"{n / 2**20:,.0f}"


def kernel_rows(times):
    """Kernels that run the same code are one row; those that are furthest from their floor come first."""
    rows = {}
    for k in times:
        row = rows.setdefault(k["code"],
                              {"name": k["name"], "where": k["where"], "bound": k["bound"], "calls": 0, "ms": 0.0,
                               "floor_ms": 0.0, "flops": 0,
                                          "bytes": 0})
        row["calls"] += 1
        for key in ("ms", "floor_ms", "flops", "bytes"):
            row[key] += k[key]
    return sorted(rows.values(), key=lambda r: r["floor_ms"] - r["ms"])


def put_kernels(name, found):
    times = found["kernel_times"]
    rows = kernel_rows(times)
    ms, floor = sum(r["ms"] for r in rows), sum(r["floor_ms"] for r in rows)
    text = (f"### {name}: kernels by their gap to the floor\n\n{len(times)} launches of {len(rows)} kernels, {ms:.3f} "
            "ms one after the other with events between "
            f"them (a step as a graph: {found['step_ms']:.3f}), {floor:.3f} ms at the ceilings of "
            f"{found['peak_gflops'] / 1e3:.0f} TFLOP/s (bf16) and "
            f"{found['peak_gbytes']:.0f} GB/s.\n\n")
    return text + table(
        ("kernel", "calls", "ms", "floor", "gap", "bound", "TFLOP/s", "GB/s", "source"),
        [(f"@{r['name']}", r["calls"], f"{r['ms']:.3f}", f"{r['floor_ms']:.3f}", f"{r['ms'] - r['floor_ms']:.3f}",
          r["bound"],
          f"{r['flops'] / r['ms'] * 1e-9:.1f}" if r["ms"] > 0 else "-",
          f"{r['bytes'] / r['ms'] * 1e-6:.0f}" if r["ms"] > 0 else "-", r["where"][:80])
         for r in rows[:KERNELS]])


def put_speed(report):
    rows = []
    for name, found in report["speed"].items():
        if not is_whole(found):
            rows.append((name, state(found)) + ("",) * 10)
            continue
        rival = best_rival(report, name)
        rows.append((name, f"{found['samples_per_s']:,.1f}", f"{found['step_ms']:.3f}", f"{found['share_of_peak']:.1%}",
                     f"{found['share_of_bandwidth']:.1%}",
                     mib(found["planned_bytes"]), mib(found["device_bytes_predicted"]), mib(found["device_bytes"]),
                     f"{found['first_step_cold_ms'] / 1e3:.2f}",
                     f"{found['first_step_warm_ms'] / 1e3:.2f}" if found["first_step_warm_ms"] else "-",
                     f"{rival[1]['samples_per_s']:,.1f} ({rival[0]})" if rival else "-",
                     f"{found['samples_per_s'] / rival[1]['samples_per_s']:.2f}" if rival else "-"))
    shares = ("Shares are of the peak of bf16 products (wgmma where there is one) and of the stream that were measured "
              "in the same run; TF32's own peak is half of it.")
    return f"## Speed\n\n{shares}\n\n" + table(
        ("", "samples/s", "step ms", "of the peak", "of the bandwidth", "planned MiB", "predicted in use", "in use",
         "first step cold s", "warm s", "best PyTorch", "times as fast"), rows) + "".join(
             put_kernels(name, found) for name, found in report["speed"].items() if is_whole(found))


def put_rivals(rivals):
    if "none" in rivals or "all" in rivals:
        return f"## PyTorch\n\n{rivals.get('none') or rivals['all']['wrong']}\n\n"
    rows = []
    for name, ways in rivals.items():
        for way, found in ways.items() if isinstance(ways, dict) else ():
            if "samples_per_s" in found:
                memory = mib(found["device_bytes"]) if found.get("device_bytes") else "-"
                rows.append((name, way, f"{found['samples_per_s']:,.1f}", f"{found['step_ms']:.3f}",
                             f"{found['first_ms'] / 1e3:.1f}", memory))
            else:
                rows.append((name, way, found.get("failed") or state(found), "", "", ""))
    return f"## PyTorch\n\n{rivals['version']}; fused Adam.\n\n" + table(("", "way", "samples/s", "step ms",
                                                                          "first step s", "reserved MiB"), rows)


def text(report):
    t = (f"# {report['device']}\n\n`bench/gpu{' --quick' if report['quick'] else ''}` on {report['date']}, commit "
         f"{report['commit']}, {report['seconds']:.0f} s. "
         f"{report['cpus']} CPUs, {report['cpu']}.\n\n    " + "\n    ".join(report["versions"] + report["gpu_state"]) +
         "\n\n")
    if report["wrong"]:
        t += "## Wrong\n\n" + "".join(f"- {w}\n" for w in report["wrong"]) + "\n"
    if "correctness" in report:
        t += "## Correctness\n\nKernels compared with the interpreter in double precision; 1 is all that "
        t += "rounding allows.\n\n" + table(
            ("", "kernels", "worst", "s", ""),
            [(name, f.get("kernels", ""), f.get("worst", ""), f.get("seconds", ""), state(f))
             for name, f in report["correctness"].items()])
    if "curves" in report:
        t += "## Curves\n\nLosses of the same steps on the CPU and on the device, in the same mode.\n\n" + table(
            ("", "apart", "allowed", ""),
            [(name, f"{f['apart']:.1e}" if "apart" in f else "", f.get("allowed", ""), state(f))
             for name, f in report["curves"].items()])
    if "graph" in report:
        t += (f"## A step\n\n{report['graph'].get('line', '')} "
              f"{state(report['graph']) if 'wrong' in report['graph'] else ''}\n\n")
    if "tests" in report:
        t += "## Tests\n\n" + table(("", ""),
                                    [(name, f"{f['passed']} passed" if "passed" in f else f.get("skipped") or state(f))
                                     for name, f in report["tests"].items()])
    if "speed" in report:
        t += put_speed(report)
    if "rivals" in report:
        t += put_rivals(report["rivals"])
    return t.rstrip() + "\n"


def summary(report):
    """The last line."""
    parts = [f"{len(report['wrong'])} WRONG, first: {report['wrong'][0][:120]}"] if report["wrong"] else []
    for part in ("correctness", "curves"):
        if part in report:
            parts.append(f"{part} {sum(state(f) == 'agrees' for f in report[part].values())} of {len(report[part])}")
    if "tests" in report:
        parts.append(f"tests {sum(f.get('passed', 0) for f in report['tests'].values())} passed")
    for name, found in report.get("speed", {}).items():
        if is_whole(found):
            rival = best_rival(report, name)
            parts.append(f"{name} {found['samples_per_s']:,.0f}/s" +
                         (f" ({found['samples_per_s'] / rival[1]['samples_per_s']:.2f} x PyTorch)" if rival else ""))
    return f"gpu: {report['device']}: " + ("; ".join(parts) or "nothing was asked for")
