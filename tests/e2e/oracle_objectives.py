#!/usr/bin/env python3
"""Losses with optimizers of their own (`optimize NAME: ...`), next to PyTorch's steps in float64: a GAN whose networks
step in turn or together, or one of them once in three steps, with optimizers that differ; an actor and a critic; ten
steps of pix2pix. Ranks, shards of the optimizer's state, the emulated GPU and a run that goes on do the same; what does
not go with several optimizers is refused.

oracle_objectives.py BUILD [OPTION...]
"""
import json
import shutil
import sys

from oracle_tools import ROOT, Workplace, check, finish, load_tensors, relative, save_tensors, torch
from torch import nn

sys.path.insert(0, str(ROOT / "tests/field"))
from gan import Pix2Pix  # noqa: E402

F = nn.functional
GAN = """module Judge()(x):
    return x |> linear(8) @0 |> tanh |> linear(1) @1

model Gan():
    input x: {type}[N, C=3]
    target t: {type}[N, K=4]
    judge = Judge() @judge
    y = x |> linear(8) @maker.0 |> layer_norm() @maker.norm |> tanh |> linear(4) @maker.1 as [N, K]
    output y
    score = judge(y)
    optimize judge: mean(softplus(-judge(t))) + mean(softplus(score))
    optimize maker: mean(softplus(-score)) + 0.1 * mse_loss(y, t)
"""
ACTOR = """model Actor():
    input x: {type}[N, C=3]
    target t: {type}[N, K=4]
    shared = x |> linear(8) @body |> tanh
    value = shared |> linear(1) @critic
    chosen = shared |> linear(4) @actor |> log_softmax(over=C) as [N, K]
    output chosen
    reward = t[K=0] - 0.5 * t[K=1]
    ahead = reward - value[C=0]
    optimize critic @body, @critic: mean(ahead**2)
    optimize actor: -mean(chosen[K=2] * stop_gradient(ahead))
"""
BATCH, STEPS = 4, 100


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.judge = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
        self.maker = nn.ModuleDict({"0": nn.Linear(3, 8), "norm": nn.LayerNorm(8), "1": nn.Linear(8, 4)})

    def score(self, x):
        return self.judge[1](torch.tanh(self.judge[0](x)))

    def make(self, x):
        return self.maker["1"](torch.tanh(self.maker["norm"](self.maker["0"](x))))

    def losses(self, x, t):
        y = self.make(x)
        return {"judge": lambda: F.softplus(-self.score(t)).mean() + F.softplus(self.score(y)).mean(),
                "maker": lambda: F.softplus(-self.score(y)).mean() + 0.1 * F.mse_loss(y, t)}

    def sets(self):
        return {"judge": list(self.judge.parameters()), "maker": list(self.maker.parameters())}


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.critic, self.actor = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 4)

    def losses(self, x, t):
        def ahead(h):
            return t[:, 0] - 0.5 * t[:, 1] - self.critic(h)[:, 0]

        def act():
            h = torch.tanh(self.body(x))
            return -(F.log_softmax(self.actor(h), 1)[:, 2] * ahead(h).detach()).mean()

        return {"critic": lambda: (ahead(torch.tanh(self.body(x)))**2).mean(), "actor": act}

    def sets(self):
        return {"critic": [*self.body.parameters(), *self.critic.parameters()], "actor": list(self.actor.parameters())}


def train(net, x, t, make, together=False, every={}, clip=0, schedule=True):
    """The steps of PyTorch: losses of each, by name."""
    sets = net.sets()
    optimizers = {k: make[k](v) for k, v in sets.items()}
    schedules = [torch.optim.lr_scheduler.StepLR(o, 35, 0.3) for o in optimizers.values()]
    told = []
    for i in range(len(x)):
        losses, now, grads = net.losses(x[i], t[i]), {}, {}

        def step(k):
            if (i + 1) % every.get(k, 1):
                return
            for p, g in zip(sets[k], grads[k]):
                p.grad = g.clone()
            if clip:
                nn.utils.clip_grad_norm_(sets[k], clip)
            optimizers[k].step()

        for k, loss in losses.items():
            now[k] = loss()
            grads[k] = torch.autograd.grad(now[k], sets[k], retain_graph=True)
            if not together:
                step(k)
        for k in losses if together else ():
            step(k)
        if schedule:
            for s in schedules:
                s.step()
        told.append({k: v.item() for k, v in now.items()})
    return told


def adam(lr, **more):
    return lambda p: torch.optim.Adam(p, lr=lr, **more)


IN_TURN = ["--lr=5e-3", "--adam_beta1=0.5", "--optimizers={judge: {lr: 2e-3, adam_beta2: 0.9}}"]
RECIPES = {
    "a GAN in turn": (GAN, Gan, IN_TURN, {"make": {"judge": adam(2e-3, betas=(0.5, 0.9)),
                                                   "maker": adam(5e-3, betas=(0.5, 0.999))}}),
    "a GAN together": (GAN, Gan, [*IN_TURN, "--optimize_order=together"],
                       {"make": {"judge": adam(2e-3, betas=(0.5, 0.9)), "maker": adam(5e-3, betas=(0.5, 0.999))},
                        "together": True}),
    "a maker of each third step, clipped": (
        GAN, Gan, ["--lr=1e-2", "--clip_grad_norm=0.2", "--weight_decay=0.1",
                   "--optimizers={judge: {optimizer: sgd, momentum: 0.8, nesterov: true, weight_decay: 0}, "
                   "maker: {optimizer: adamw, every: 3}}"],
        {"make": {"judge": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.8, nesterov=True),
                  "maker": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1)}, "every": {"maker": 3},
         "clip": 0.2}),
    "an actor and a critic": (ACTOR, Actor, ["--lr=1e-2", "--optimizer=nadam", "--optimizers={actor: {lr: 1e-3}}"],
                              {"make": {"critic": lambda p: torch.optim.NAdam(p, lr=1e-2, foreach=True),
                                        "actor": lambda p: torch.optim.NAdam(p, lr=1e-3, foreach=True)}}),
}


# Further runs in f32: without these options, and stopped with those.
ALSO = {"a GAN in turn": ((("-n", "2"), ("--device=cuda:emulated", "--tf32=false")),
                          ("--amp_mode=bf16", "--ema=0.9", "--log_norms=true")),
        "a GAN together": ((("-n", "2", "--zero=1"), ), ("--amp_mode=fp16", )),
        "a maker of each third step, clipped": ((("-n", "2", "--zero=1"), ("--device=cuda:emulated", "--tf32=false")),
                                                ("--amp_mode=fp16", )),
        "an actor and a critic": ((("-n", "2"), ), ())}


def main(build, *_):
    place = Workplace(build)
    place.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    (place / "c.yaml").write_text("base: {}\n")
    torch.manual_seed(5)
    x, t = torch.randn(STEPS, BATCH, 3).double(), torch.randn(STEPS, BATCH, 4).double()

    def dlrun(name, model, *args, status=0):
        if "--resume=true" not in args:
            shutil.rmtree(place / name, ignore_errors=True)
        return place.run("dlrun", model, f"--yaml_config={place / 'c.yaml'}", f"--expdir={place / name}", *args,
                         status=status)

    def replay(model, start, x, t, *args):
        """The lines of the steps, and the weights after the last one."""
        save_tensors(place / "w.safetensors", start)
        batches = {f"{n}.{i}": v[i] for n, v in (("x", x), ("t", t)) for i in range(len(x))}
        save_tensors(place / "b.safetensors", batches)
        out = dlrun("t", model, f"--replay={place / 'b.safetensors'}", f"--batch_size={x.shape[1]}",
                    f"--init_weights={place / 'w.safetensors'}", f"--save_weights={place / 'end.safetensors'}", *args)
        lines = [json.loads(s) for s in out.splitlines() if s.startswith('{"step"')]
        return lines, load_tensors(place / "end.safetensors")

    def compare(name, net, got, end, want, most):
        far = max(abs(g[f"loss_{k}"] - w[k]) / abs(w[k]) for g, w in zip(got, want) for k in w)
        check(len(got) == len(want) and far < most, f"{name}: the losses of {len(got)} steps, {far:.1e}")
        far = {k: relative(end[k], v.detach()) for k, v in net.state_dict().items() if not k.endswith("tracked")}
        worst = max(far, key=far.get)
        check(far[worst] < most, f"{name}: weights at the end, {far[worst]:.1e} of {worst}")

    schedule = "--lr_schedule={name: step, step_size: 35, gamma: 0.3, unit: step}"
    for name, (text, kind, options, how) in RECIPES.items():
        models = {k: place / f"{k}.dl" for k in ("f32", "f64")}
        for k, path in models.items():
            path.write_text(text.format(type=k))
        net = kind().double()
        start = {k: v.clone() for k, v in net.state_dict().items()}
        got, end = replay(models["f64"], start, x, t, *options, schedule)
        compare(name, net, got, end, train(net, x, t, **how), 1e-6)
        # ranks, shards of the optimizer's state, the emulated GPU: in f32, as runs have it
        few = [v[:30].float() for v in (x, t)]
        start = {k: v.float() for k, v in start.items()}
        _, one = replay(models["f32"], start, *few, *options)
        others, more = ALSO[name]
        for args in others:
            far = {k: relative(v, one[k]) for k, v in replay(models["f32"], start, *few, *options, *args)[1].items()}
            check(max(far.values()) < 2e-4, f"{name}, {' '.join(args)}: {max(far.values()):.1e}")
        common = ("--data_loader_config=synthetic", f"--batch_size={BATCH}", "--Nsamples=20", "--Nsamples_val=4",
                  "--num_epochs=2", f"--init_weights={place / 'w.safetensors'}", *options, *more)
        dlrun("one", models["f32"], *common)
        dlrun("two", models["f32"], *common, "--stop_after=7", status=75)
        dlrun("two", models["f32"], *common, "--resume=true")
        ends = [{p.name: p.read_bytes() for p in (place / d).rglob("last/*.safetensors")} for d in ("one", "two")]
        check(len(ends[0]) >= 2 and ends[0] == ends[1], f"{name}: stopped, a run goes on to the bits of one {more}")

    # numbers are variables of the plan; batches of a step add up
    gan = models["f32"]
    gan.write_text(GAN.format(type="f32"))
    place.empty_cache()
    rate = "--optimizers={judge: {lr: %s, adam_beta1: %s}, maker: {every: %d}}"
    dlrun("n", gan, *common[:5], rate % (1e-3, 0.9, 2))
    check("plan from the cache" in dlrun("n", gan, *common[:5], rate % (2e-3, 0.5, 3)),
          "another number of an optimizer compiles nothing")
    together = "--optimize_order=together", "--lr_schedule=none", "--clip_grad_norm=0.1"
    start = {k: v.float() for k, v in Gan().state_dict().items()}
    whole = replay(gan, start, *few, *together)[1]
    halves = [v.reshape(60, 2, -1) for v in few]
    parts = replay(gan, start, *halves, *together, "--accumulate=2", f"--batch_size={BATCH}")[1]
    far = max(relative(v, whole[k]) for k, v in parts.items())
    check(far < 1e-4, f"two batches of a step together are one of twice the samples: {far:.1e}")

    def refused(model, args, what):
        run = place.start("dlrun", model, f"--yaml_config={place / 'c.yaml'}", f"--expdir={place / 'no'}", *common[:5],
                          *args)
        out = run.communicate()[0]
        check(run.returncode in (2, 3) and what in out, f"{args} is refused: {what}")

    for args, what in ((("--optimizers={jugde: {lr: 1}}",), "did you mean 'judge'?"),
                       (("--optimizers={judge: {lr: fast}}",), "start_lr must be a number"),
                       (("--optimizers={judge: {num_epochs: 3}}",), "num_epochs holds for all optimizers"),
                       (("--optimizers={judge: {adam_beta3: 3}}",), "is called 'adam_beta3'"),
                       (("--optimizers={judge: {every: 0}}",), "every must be an integer from 1"),
                       (("--optimizers={judge: 3}",), "a map of names, each to a map of keys"),
                       (("--optimizers={judge: {optimizer: sgd, nesterov: true}}",), "needs a momentum above 0"),
                       (("--accumulate=2",), "--optimize_order=together, or --accumulate=1"),
                       (("--groups=[{params: 'judge.*', lr: 1}]",), "give rates by the key optimizers"),
                       (("--torch_checkpoints=true",), "--torch_checkpoints=false"),
                       (("--optimizers={judge: {lr: 1}}", "--start_lr=0"), "give start_lr")):
        refused(gan, args, what)
    single = place / "single.dl"
    single.write_text(GAN.format(type="f32").replace("optimize judge:", "loss =").replace("optimize maker:", "loss +="))
    refused(single, ("--optimizers={judge: {lr: 1}}", ), "it has one loss, whose optimizer is the key optimizer")

    # pix2pix, as it is published but smaller, in f64
    model = place / "pix2pix.dl"
    model.write_text((ROOT / "models/field/pix2pix.dl").read_text().replace("f32", "f64"))
    net = Pix2Pix(width=4, levels=3, patches=2).double()
    shapes = 10, 2, 3, 32, 32
    x, t = torch.randn(shapes).double(), torch.randn(shapes).double().tanh()
    start = {k: v.clone() for k, v in net.state_dict().items()}
    small = ("--size=32", "--width=4", "--levels=3", "--patches=2", "--lr=2e-4", "--adam_beta1=0.5",
             "--lr_schedule=none")
    got, end = replay(model, start, x, t, *small, "--optimizers={discriminator: {lr: 1e-4}}")
    make = {"discriminator": adam(1e-4, betas=(0.5, 0.999)), "generator": adam(2e-4, betas=(0.5, 0.999))}
    compare("pix2pix", net, got, end, train(net, x, t, make, schedule=False), 1e-6)
    far = max(abs(g["loss"] - g["mae"]) for g in got)
    check(far == 0, "pix2pix: the loss that is stated next to `optimize` is the one that is reported")
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
