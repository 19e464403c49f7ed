"""Learning curves as one SVG: validation losses over the steps, and next to them where each run ended."""
import math

# Thick and pale below, thin above: runs that lie on each other are all seen.
STROKES = {"f32": ("6", "0.45"), "bf16": ("3", "1"), "fp16": ("1", "1")}
COLOURS = {("dlc", "f32"): "#1f5fa8", ("dlc", "bf16"): "#d9730d", ("dlc", "fp16"): "#2c8a3d",
           ("PyTorch", "f32"): "#7a7a7a", ("PyTorch", "bf16"): "#b04a9a"}
# of the picture, the curves' frame, the ends' frame
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, ENDS = 760, 360, 62, 480, 40, 310, 200


def ticks(low, high, most):
    """Round numbers within a range, at most so many."""
    step = 10 ** math.floor(math.log10((high - low) / most))
    step = next(step * k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= most)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def padded(values, share):
    low, high = min(values), max(values)
    margin = share * (high - low) or share * abs(high) or 1
    return low - margin, high + margin


def text(x, y, words, anchor="start", colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def frame(left, right, low, high, title):
    """A frame with its scale of losses; what maps a loss to a height."""
    at = lambda v: BOTTOM - (v - low) / (high - low) * (BOTTOM - TOP)
    lines = [f'<rect x="{left}" y="{TOP}" width="{right - left}" height="{BOTTOM - TOP}" fill="none" stroke="#999"/>',
             text(left, TOP - 8, title)]
    for v in ticks(low, high, 6):
        lines.append(f'<line x1="{left}" x2="{right}" y1="{at(v):.1f}" y2="{at(v):.1f}" stroke="#e4e4e4"/>')
        lines.append(text(left - 5, at(v) + 4, f"{v:.6g}", "end"))
    return lines, at


def chart(title, curves):
    """curves: [(by, mode, seed, [(step, loss), ...])]. The scale leaves out what is untrained: the points at step 0 and
    above. Seeds of one colour; the band is ours in float32, least to greatest."""
    trained = [loss for *_, points in curves for step, loss in points if step > 0]
    last = max(points[-1][0] for *_, points in curves)
    across = lambda step: LEFT + step / last * (RIGHT - LEFT)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<clipPath id="curves"><rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" '
           f'height="{BOTTOM - TOP}"/></clipPath>']
    lines, at = frame(LEFT, RIGHT, *padded(trained, 0.05), f"{title}: validation loss")
    out += lines
    for v in ticks(0, last, 6):
        out.append(text(across(v), BOTTOM + 16, f"{v:.6g}", "middle"))
    out.append(text(RIGHT, BOTTOM + 32, "steps", "end"))
    for by, mode, _, points in curves:
        width, opacity = STROKES[mode] if by == "dlc" else ("1.2", "1")
        dashes = ' stroke-dasharray="5 3"' if by != "dlc" else ""
        path = " ".join(f"{across(s):.1f},{at(v):.1f}" for s, v in points)
        out.append(f'<polyline points="{path}" clip-path="url(#curves)" fill="none" stroke="{COLOURS[by, mode]}" '
                   f'stroke-width="{width}" stroke-opacity="{opacity}"{dashes}/>')
    left, right = WIDTH - ENDS - 10, WIDTH - 10
    finals = {}
    for by, mode, _, points in curves:
        finals.setdefault((by, mode), []).append(points[-1][1])
    lines, at = frame(left, right, *padded([v for values in finals.values() for v in values], 0.1), "at the end")
    out += lines
    if base := finals.get(("dlc", "f32")):
        out.append(f'<rect x="{left}" y="{at(max(base)):.1f}" width="{right - left}" '
                   f'height="{at(min(base)) - at(max(base)):.1f}" '
                   f'fill="{COLOURS["dlc", "f32"]}" opacity="0.15"/>')
    for i, ((by, mode), values) in enumerate(finals.items()):
        x, colour = left + (i + 0.5) * (right - left) / len(finals), COLOURS[by, mode]
        out += [f'<circle cx="{x:.1f}" cy="{at(v):.1f}" r="3.5" fill="{colour if by == "dlc" else "#fff"}" '
                f'stroke="{colour}"/>' for v in values]
        out.append(text(x, BOTTOM + 16, mode, "middle", colour))
    others = [left + (i + 0.5) * (right - left) / len(finals) for i, (by, _) in enumerate(finals) if by != "dlc"]
    if others:
        out.append(text(sum(others) / len(others), BOTTOM + 31, "PyTorch", "middle"))
    return "\n".join([*out, "</svg>"]) + "\n"
