// dlc: trained networks in C++ programs, over dlc.h. C++17; std::span of C++20 is a container, too.
//
//     dlc::model net("runs/base/1GPU/00");
//     std::vector<float> y = net.predict(x);   // x: std::vector<float>, std::array, std::span, ...
//
// Arrays are dense and row-major, the sample axis first, as dlc.h says. A call counts the samples
// by its arrays' sizes. A failure throws dlc::error. One thread at a time uses a model.
#ifndef DLC_HPP
#define DLC_HPP
#include <dlc.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dlc {

// A call that failed: code() is that of dlc_status, what() its sentence and, of dlc::model's
// constructor, the located diagnostics.
class error : public std::runtime_error {
  public:
    error(int code, const std::string &message) : std::runtime_error(message), code_(code) {}
    int code() const noexcept { return code_; }

  private:
    int code_;
};

struct options {
    std::string device;                // "cpu", "cuda:0"; empty: "auto"
    int threads = 0;                   // of a CPU; 0: as many as the process may use
    std::int64_t batch = 0;            // samples that one run takes; 0: the configuration's
    std::vector<std::string> settings; // "key=value"
    std::string config_file, config_name;
    std::string plan; // a plan's file, whose programs are used; empty: compiled (dlc.h)
    bool train = false, raw = false, refuse_nan = false;
    const void *mpi_comm = nullptr; // MPI_Comm *: its ranks train together (dlc.h)
    // Warnings and notes while a model opens, of the levels of dlc_log_level.
    std::function<void(int level, std::string_view text)> log;
};

// An input, target, output, metric or parameter.
struct tensor {
    std::string name;
    dlc_dtype dtype = DLC_F32;
    std::vector<std::int64_t> shape; // of arrays with samples: their most, first
    std::vector<std::string> axes;
    std::int64_t per_sample() const { return count(1); }
    std::int64_t size() const { return count(0); }

  private:
    std::int64_t count(std::size_t first) const {
        std::int64_t n = 1;
        for (std::size_t i = first; i < shape.size(); i++) n *= shape[i];
        return n;
    }
};

namespace detail {
template <class T> constexpr int dtype_of() {
    using U = std::remove_cv_t<T>;
    return std::is_same_v<U, float>          ? DLC_F32
           : std::is_same_v<U, double>       ? DLC_F64
           : std::is_same_v<U, std::int32_t> ? DLC_I32
           : std::is_same_v<U, std::int64_t> ? DLC_I64
           : std::is_same_v<U, bool>         ? DLC_BOOL
                                             : -1;
}
template <class C>
using element_of = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>;
template <class C> using if_numbers = std::enable_if_t<dtype_of<element_of<C>>() >= 0>;

inline std::string name_of(int dtype) {
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "bool"};
    return names[dtype];
}
inline std::string shape_of(const tensor &t) {
    std::string text = name_of(t.dtype) + "[";
    for (std::size_t i = 0; i < t.shape.size(); i++)
        text += (i ? ", " : "") + (i ? std::to_string(t.shape[i]) : std::string("samples"));
    return text + "]";
}
} // namespace detail

// Numbers that a call reads: any contiguous container of float, double, int32_t, int64_t or bool;
// a pointer and a count; or, of the 16-bit types, memory, a count and its type. nullptr stands for
// an input that a prediction does not need, as only the loss reads it.
class input {
  public:
    template <class C, class = detail::if_numbers<const C>>
    input(const C &c) : input(std::data(c), std::size(c)) {}
    template <class T, class = std::enable_if_t<detail::dtype_of<T>() >= 0>>
    input(const T *at, std::size_t n)
        : input(static_cast<const void *>(at), n, static_cast<dlc_dtype>(detail::dtype_of<T>())) {}
    input(const void *at, std::size_t n, dlc_dtype dtype) : memory(at), elements(n), type(dtype) {}
    input(std::nullptr_t) : memory(nullptr), elements(0), type(DLC_F32), absent(true) {}
    const void *memory;
    std::size_t elements;
    dlc_dtype type;
    bool absent = false;
};

// The same, of numbers that a call writes.
class output {
  public:
    template <class C, class = detail::if_numbers<C>,
              class = std::enable_if_t<!std::is_const_v<detail::element_of<C>>>>
    output(C &&c) : output(std::data(c), std::size(c)) {}
    template <class T, class = std::enable_if_t<detail::dtype_of<T>() >= 0>>
    output(T *at, std::size_t n)
        : output(static_cast<void *>(at), n, static_cast<dlc_dtype>(detail::dtype_of<T>())) {}
    output(void *at, std::size_t n, dlc_dtype dtype) : memory(at), elements(n), type(dtype) {}
    void *memory;
    std::size_t elements;
    dlc_dtype type;
};

struct evaluation {
    double loss = 0;
    std::vector<double> metrics; // in the order of model::metrics
};

// An open network. It is moved, not copied; one that was moved from or closed refuses calls.
class model {
  public:
    // A run's directory, a checkpoint of it, or a model file (.dl, with fresh weights).
    explicit model(const std::string &path, const options &o = {}) {
        std::vector<const char *> settings;
        for (const std::string &s : o.settings) settings.push_back(s.c_str());
        settings.push_back(nullptr);
        teller tell{o.log, {}};
        dlc_options c = {};
        c.size = sizeof c;
        c.device = text(o.device);
        c.threads = o.threads;
        c.batch = o.batch;
        c.settings = settings.data();
        c.config_file = text(o.config_file);
        c.config_name = text(o.config_name);
        c.train = o.train;
        c.log = &teller::call;
        c.log_context = &tell;
        c.raw = o.raw;
        c.refuse_nan = o.refuse_nan;
        c.mpi_comm = o.mpi_comm;
        c.plan = text(o.plan);
        dlc_status s = {};
        handle_ = dlc_open(path.c_str(), &c, &s);
        while (!tell.diagnostics.empty() && tell.diagnostics.back() == '\n')
            tell.diagnostics.pop_back();
        const char *between = tell.diagnostics.empty() ? "" : "\n";
        if (!handle_) throw error(s.code, s.message + (between + tell.diagnostics));
        inputs_ = describe(DLC_INPUT);
        targets_ = describe(DLC_TARGET);
        outputs_ = describe(DLC_OUTPUT);
        from_.resize(inputs_.size() + targets_.size() + 1);
        to_.resize(outputs_.size() + 1);
    }
    ~model() { close(); }
    model(model &&other) noexcept { swap(other); }
    model &operator=(model &&other) noexcept {
        if (this != &other) close(), swap(other);
        return *this;
    }
    model(const model &) = delete;
    model &operator=(const model &) = delete;
    void close() noexcept {
        dlc_close(handle_);
        handle_ = nullptr;
    }
    dlc_model *handle() const noexcept { return handle_; }

    const std::vector<tensor> &inputs() const noexcept { return inputs_; }
    const std::vector<tensor> &targets() const noexcept { return targets_; }
    const std::vector<tensor> &outputs() const noexcept { return outputs_; }
    std::vector<tensor> metrics() const { return describe(DLC_METRIC); }
    std::vector<tensor> parameters() const { return describe(DLC_PARAMETER); }
    std::int64_t batch() const { return inputs_.empty() ? 0 : inputs_[0].shape[0]; }
    std::int64_t memory() const noexcept { return dlc_memory(handle_); }

    // Predicts as many samples as the arrays hold, in the order of inputs() and outputs().
    void predict(std::initializer_list<input> inputs, std::initializer_list<output> outputs) {
        std::int64_t samples = -1;
        take(inputs, inputs_, "inputs", from_.data(), samples);
        take(outputs, outputs_, "outputs", to_.data(), samples);
        dlc_status s = {};
        check(dlc_predict(handle_, samples, from_.data(), to_.data(), &s), s);
    }
    // The same of a network with one input and one output.
    template <class T = float> std::vector<T> predict(const input &x) {
        std::int64_t samples = -1;
        take({x}, inputs_, "inputs", from_.data(), samples);
        if (samples < 0) throw error(2, "the array of '" + inputs_[0].name + "' is NULL");
        std::size_t each = outputs_.size() == 1 ? std::size_t(outputs_[0].per_sample()) : 0;
        std::vector<T> y(std::size_t(samples) * each);
        predict({x}, {output(y)});
        return y;
    }
    // One step of the optimiser on a batch, of inputs, then targets; returns the loss before it.
    double train_step(std::initializer_list<input> inputs_then_targets) {
        dlc_status s = {};
        double loss = 0;
        std::int64_t samples = take_all(inputs_then_targets);
        check(dlc_train_step(handle_, samples, from_.data(), &loss, &s), s);
        return loss;
    }
    // Mean loss and metrics of a multiple of the batch.
    evaluation evaluate(std::initializer_list<input> inputs_then_targets) {
        dlc_status s = {};
        evaluation e;
        std::int64_t samples = take_all(inputs_then_targets);
        e.metrics.resize(std::size_t(dlc_count(handle_, DLC_METRIC)));
        check(dlc_evaluate(handle_, samples, from_.data(), &e.loss, e.metrics.data(), &s), s);
        return e;
    }

    // A parameter or running statistic by PyTorch's name, in PyTorch's order.
    template <class T = float> std::vector<T> get(const std::string &name) const {
        const tensor t = parameter(name, detail::dtype_of<T>());
        std::vector<T> values(std::size_t(t.size()));
        dlc_status s = {};
        check(dlc_get(handle_, name.c_str(), values.data(), values.size() * sizeof(T), &s), s);
        return values;
    }
    template <class C, class = detail::if_numbers<const C>>
    void set(const std::string &name, const C &values) {
        parameter(name, detail::dtype_of<detail::element_of<const C>>());
        dlc_status s = {};
        check(dlc_set(handle_, name.c_str(), std::data(values),
                      std::size(values) * sizeof *std::data(values), &s),
              s);
    }
    // Writes a checkpoint into a run's directory. The model must be open for training.
    void save(const std::string &directory) const {
        dlc_status s = {};
        check(dlc_save(handle_, directory.c_str(), &s), s);
    }

  private:
    struct teller {
        const std::function<void(int, std::string_view)> &log;
        std::string diagnostics;
        static void call(void *context, int level, const char *text) {
            teller *t = static_cast<teller *>(context);
            if (level == DLC_LOG_DIAGNOSTICS) t->diagnostics += text;
            if (t->log) t->log(level, text);
        }
    };
    static const char *text(const std::string &s) { return s.empty() ? nullptr : s.c_str(); }
    static void check(int done, const dlc_status &s) {
        if (!done) throw error(s.code, s.message);
    }
    void swap(model &other) noexcept {
        std::swap(handle_, other.handle_);
        inputs_.swap(other.inputs_), targets_.swap(other.targets_), outputs_.swap(other.outputs_);
        from_.swap(other.from_), to_.swap(other.to_);
    }
    std::vector<tensor> describe(dlc_role role) const {
        std::vector<tensor> all;
        dlc_tensor d;
        for (int i = 0; dlc_describe(handle_, role, i, &d); i++) {
            tensor t;
            t.name = d.name, t.dtype = d.dtype, t.shape.assign(d.shape, d.shape + d.rank);
            for (int k = 0; k < d.rank; k++) t.axes.push_back(d.axis[k] ? d.axis[k] : "");
            all.push_back(std::move(t));
        }
        return all;
    }
    tensor parameter(const std::string &name, int dtype) const {
        if (!handle_) throw error(2, "the model is closed");
        for (tensor &t : describe(DLC_PARAMETER)) {
            if (t.name != name) continue;
            if (t.dtype == dtype) return std::move(t);
            throw error(3, "'" + name + "' is " + detail::name_of(t.dtype) + ", and the array " +
                               detail::name_of(dtype));
        }
        throw error(2, "the model has no parameter '" + name + "'");
    }

    // Arrays as pointers, with their number of samples; -1: of the first one.
    template <class A, class P>
    void take_one(const A &a, const tensor &t, P &at, std::int64_t &samples) const {
        std::int64_t n = std::int64_t(a.elements), each = t.per_sample();
        at = a.memory;
        if constexpr (std::is_same_v<A, input>)
            if (a.absent) return; // the library knows whether it needs the array
        if (a.type != t.dtype)
            throw error(3, "'" + t.name + "' is " + detail::name_of(t.dtype) + ", and the array " +
                               detail::name_of(a.type));
        if (samples < 0 && each > 0) samples = n / each;
        if (n != samples * each)
            throw error(3, "'" + t.name + "' is " + detail::shape_of(t) + ": " + std::to_string(n) +
                               " elements are no " + std::to_string(samples) + " samples");
    }
    template <class A, class P>
    void take(std::initializer_list<A> arrays, const std::vector<tensor> &tensors, const char *what,
              P *at, std::int64_t &samples) const {
        if (!handle_) throw error(2, "the model is closed");
        if (arrays.size() != tensors.size())
            throw error(2, std::to_string(arrays.size()) + " arrays, and the model has " +
                               std::to_string(tensors.size()) + " " + what);
        std::size_t i = 0;
        for (const A &a : arrays) take_one(a, tensors[i], at[i], samples), i++;
    }
    std::int64_t take_all(std::initializer_list<input> arrays) {
        if (!handle_) throw error(2, "the model is closed");
        std::int64_t samples = -1;
        std::size_t n = inputs_.size(), i = 0;
        if (arrays.size() != n + targets_.size())
            throw error(2, std::to_string(arrays.size()) + " arrays, and the model has " +
                               std::to_string(n) + " inputs and " +
                               std::to_string(targets_.size()) + " targets");
        for (const input &a : arrays) {
            take_one(a, i < n ? inputs_[i] : targets_[i - n], from_[i], samples);
            i++;
        }
        return samples;
    }

    dlc_model *handle_ = nullptr;
    std::vector<tensor> inputs_, targets_, outputs_;
    std::vector<const void *> from_;
    std::vector<void *> to_;
};

} // namespace dlc
#endif
