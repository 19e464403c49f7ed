// Calls of dlc.hpp that must work, and those that must throw: calls RUN X Y FOLDER, with the raw
// input and the prediction of dlrun predict. Prints "N passed, M failed".
#include <dlc.hpp>

#include <array>
#include <fstream>
#include <iostream>
#if __cplusplus >= 202002L
#include <span>
#endif

static int passed, failed;
static void check(bool ok, const char *what) {
    ok ? passed++ : failed++;
    if (!ok) std::cout << "failed: " << what << "\n";
}

template <class F> static void refuses(int code, const std::string &part, F call) {
    try {
        call();
        check(false, part.c_str());
    } catch (const dlc::error &e) {
        bool ok = e.code() == code && std::string(e.what()).find(part) != std::string::npos;
        check(ok, part.c_str());
        if (!ok) std::cout << "  " << e.code() << ": " << e.what() << "\n";
    }
}

static std::vector<float> load(const char *path) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    std::vector<float> v(std::size_t(in.tellg()) / sizeof(float));
    in.seekg(0).read(reinterpret_cast<char *>(v.data()), std::streamsize(v.size() * sizeof(float)));
    return v;
}

static void predicts(const std::string &run, const std::vector<float> &x,
                     const std::vector<float> &truth) {
    dlc::options o;
    o.threads = 1, o.batch = 4, o.device = "cpu";
    dlc::model net(run, o);
    check(net.inputs().size() == 1 && net.inputs()[0].name == "x" && net.batch() == 4 &&
              net.inputs()[0].axes == std::vector<std::string>{"N", "C", "W"} && net.memory() > 0,
          "descriptions");
    check(net.predict(x) == truth, "the bits of dlrun predict");
    std::vector<float> y(truth.size());
    net.predict({x}, {y});
    check(y == truth, "into a vector");
    y.assign(y.size(), 0);
    net.predict({{x.data(), 32}}, {{y.data(), 32}});
    check(std::equal(y.begin(), y.begin() + 32, truth.begin()), "a pointer and a size");
#if __cplusplus >= 202002L
    net.predict({std::span<const float>(x)}, {std::span<float>(y)});
    check(y == truth, "spans");
#endif
    dlc::model moved = std::move(net);
    check(moved.predict(x) == truth && !net.handle(), "moved");
    refuses(2, "closed", [&] { net.predict(x); });
    refuses(3, "767 elements", [&] { moved.predict({x.data(), 767}); });
    refuses(3, "'x' is f32, and the array f64", [&] { moved.predict(std::vector<double>(32)); });
    refuses(2, "dlc_options.train", [&] { moved.train_step({x, x}); });
    refuses(2, "2 arrays", [&] { moved.predict({x, x}, {y}); });
    moved.close();
    refuses(2, "closed", [&] { moved.get("a.weight"); });
}

static void trains(const std::string &folder) {
    dlc::options o;
    o.train = true, o.batch = 4, o.settings = {"lr=0.01", "lr_schedule=none"};
    dlc::model net(folder + "/two.dl", o);
    std::array<float, 64> u{}, v{}, t{};
    for (std::size_t i = 0; i < t.size(); i++) u[i] = float(i % 7), t[i] = 0.5f * u[i] - 1;
    double first = net.train_step({u, v, t}), last = first;
    for (int i = 0; i < 20; i++) last = net.train_step({u, v, t});
    check(last < first, "losses fall");
    dlc::evaluation e = net.evaluate({u, v, t});
    check(e.loss < first && e.metrics.size() == 1 && e.metrics[0] > 0 &&
              net.metrics()[0].name == "mae",
          "evaluate");
    std::vector<float> y(64), z(4), y2(64);
    net.predict({u, v}, {y, z});
    std::vector<float> w = net.get("b.weight");
    net.set("b.weight", std::vector<float>(w.size()));
    check(net.get("b.weight") == std::vector<float>(w.size()), "set");
    net.set("b.weight", w);
    net.predict({u, v}, {y2, z});
    check(y == y2, "set back");
    net.save(folder + "/saved_cpp");
    dlc::model saved(folder + "/saved_cpp");
    saved.predict({u, v}, {y2, z});
    check(y == y2, "saved");
    refuses(2, "no parameter 'c.weight'", [&] { net.get("c.weight"); });
    refuses(3, "'b.weight' is f32", [&] { net.get<double>("b.weight"); });
    refuses(2, "bytes", [&] { net.set("b.weight", std::vector<float>(1)); });
    refuses(3, "'v' is f32", [&] { net.train_step({u, {v.data(), 48}, t}); });
}

// An input that only the loss reads, here the first one, is nullptr in a prediction.
static void leaves_out(const std::string &folder) {
    dlc::options o;
    o.train = true, o.batch = 2, o.settings = {"lr=0.01", "lr_schedule=none"};
    dlc::model net(folder + "/weighted.dl", o);
    std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6), few(4);
    net.predict({nullptr, x}, {y});
    check(y == std::vector<float>{2, 4, 6, 8, 10, 12}, "nullptr for an input of the loss");
    refuses(2, "the array of 'x' is NULL", [&] { net.predict({x, nullptr}, {y}); });
    refuses(3, "'y' is f32[samples, 2]", [&] { net.predict({nullptr, x}, {few}); });
    refuses(2, "the array of 'w' is NULL", [&] { net.train_step({nullptr, few, few}); });
    net.train_step({few, few, few});
    o.train = false;
    dlc::model one(folder + "/field.dl", o);
    refuses(2, "the array of 'x' is NULL", [&] { one.predict(nullptr); });
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    std::string folder = argv[4], told;
    predicts(argv[1], load(argv[2]), load(argv[3]));
    trains(folder);
    leaves_out(folder);
    refuses(4, "nonexistent", [] { dlc::model("/nonexistent"); });
    refuses(4, "nothing.dlp", [&] {
        dlc::options o;
        o.plan = folder + "/nothing.dlp";
        dlc::model(folder + "/faulty.dl", o);
    });
    std::ofstream(folder + "/faulty.dl")
        << "model M():\n    input x: f32[N, F=2]\n    y = convy(x)\n";
    refuses(3, "no layer, function or module 'convy'", [&] {
        dlc::options o;
        o.log = [&](int, std::string_view text) { told += text; };
        dlc::model(folder + "/faulty.dl", o);
    });
    check(told.find('^') != std::string::npos, "diagnostics go to the log");
    std::cout << passed << " passed, " << failed << " failed\n";
    return failed > 0;
}
