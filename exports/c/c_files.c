/* The files around NAME.c: header, Fortran module, build, example, README. */
#include "exports/c/c_network.h"

/* "C=1, W=32"; of one number: "one number". */
static void put_shape(dl_buf *b, const dl_type *t) {
    bool any = false;
    for (int k = 0; k < t->rank; k++) {
        if (k == 0 && !strcmp(t->axis[k].name, "N") && t->axis[k].size == 1) continue;
        dl_putf(b, "%s%s=%lld", any ? ", " : "", t->axis[k].name, (long long)t->axis[k].size);
        any = true;
    }
    if (!any) dl_puts(b, "one number");
}

/* Its line in a comment: "x: float, C=1, W=32; numbers as the run's files have them". */
static void put_line(dl_buf *b, const dl_c_array *a, bool is_output) {
    dl_putf(b, "%s: %s, ", a->id, dl_c_type(a->type.dtype));
    put_shape(b, &a->type);
    if (a->record && a->record->n_scales)
        dl_puts(b, is_output ? "; in the units of the run's files"
                             : "; as the run's files have it: normalised inside");
}

static bool has_integers(const dl_c_network *c) {
    bool any = false;
    for (int i = 0; i < c->n_inputs; i++) any |= !dl_dtype_is_float(c->input[i].type.dtype);
    for (int i = 0; i < c->n_outputs; i++) any |= !dl_dtype_is_float(c->output[i].type.dtype);
    return any;
}

static const dl_c_array *array_at(const dl_c_network *c, int i) {
    return i < c->n_inputs ? &c->input[i] : &c->output[i - c->n_inputs];
}

static int n_arrays(const dl_c_network *c) { return c->n_inputs + c->n_outputs; }

void dl_c_put_header(dl_buf *b, const dl_c_network *c) {
    dl_putf(b, "/* %s, a trained network: one call predicts one sample. */\n", c->of->name);
    dl_putf(b, "#ifndef %s_H\n#define %s_H\n#include <stdint.h>\n\n", c->upper, c->upper);
    dl_putf(b, "/* Bytes of memory that a call works in. */\n#define %s_WORK_BYTES %lldL\n",
            c->upper, (long long)c->work);
    dl_puts(b, "/* Elements of the arrays. */\n");
    for (int i = 0; i < n_arrays(c); i++)
        dl_putf(b, "#define %s_%s_COUNT %lldL\n", c->upper, array_at(c, i)->upper,
                (long long)dl_type_count(&array_at(c, i)->type));
    dl_puts(b, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n/* Arrays are dense, the last axis "
               "fastest, and overlap nothing:\n");
    for (int i = 0; i < n_arrays(c); i++) {
        dl_puts(b, " *   ");
        put_line(b, array_at(c, i), i >= c->n_inputs);
        dl_puts(b, "\n");
    }
    dl_putf(b,
            " *   work: %s_WORK_BYTES bytes at any address, of any contents\n"
            " * Returns 0. Calls in several threads are independent, each with work of its own. "
            "*/\nint %s_predict(",
            c->upper, c->name);
    dl_c_put_parameters(b, c);
    dl_puts(b, ");\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static const char *fortran_type(dl_dtype d) {
    static const char *const types[DL_NDTYPES] = {
        [DL_F32] = "real(c_float)",      [DL_F64] = "real(c_double)",
        [DL_F16] = "real(c_float)",      [DL_BF16] = "real(c_float)",
        [DL_I32] = "integer(c_int32_t)", [DL_I64] = "integer(c_int64_t)",
        [DL_BOOL] = "integer(c_int8_t)"};
    return types[d];
}

void dl_c_put_fortran(dl_buf *b, const dl_c_network *c) {
    static const char kinds[] =
        "c_int, c_float, c_double, c_int8_t, c_int32_t, c_int64_t, c_size_t";
    dl_putf(b,
            "! %s, a trained network: one call predicts one sample. The first axis of an array is "
            "the model's last.\nmodule %s\n"
            "   use, intrinsic :: iso_c_binding, only: %s\n   implicit none\n   private\n"
            "   public :: %s_predict\n"
            "   integer(c_size_t), parameter, public :: %s_work_bytes = %lld_c_size_t\n",
            c->of->name, c->name, kinds, c->name, c->name, (long long)c->work);
    for (int i = 0; i < n_arrays(c); i++)
        dl_putf(b, "   integer(c_size_t), parameter, public :: %s_%s_count = %lld_c_size_t\n",
                c->name, array_at(c, i)->id, (long long)dl_type_count(&array_at(c, i)->type));
    dl_putf(b,
            "   interface\n      ! Returns 0. work: %s_work_bytes elements, for one call at a "
            "time.\n      function %s_predict(",
            c->name, c->name);
    for (int i = 0; i < n_arrays(c); i++) dl_putf(b, "%s, &\n            ", array_at(c, i)->id);
    dl_putf(b,
            "work) bind(c, name='%s_predict')\n         import :: %s\n"
            "         integer(c_int) :: %s_predict\n",
            c->name, kinds, c->name);
    for (int i = 0; i < n_arrays(c); i++) {
        const dl_c_array *a = array_at(c, i);
        dl_putf(b, "         %s, intent(%s) :: %s(*) ! ", fortran_type(a->type.dtype),
                i < c->n_inputs ? "in" : "out", a->id);
        put_shape(b, &a->type);
        dl_puts(b, "\n");
    }
    dl_putf(b,
            "         integer(c_int8_t), intent(inout) :: work(*)\n"
            "      end function %s_predict\n   end interface\nend module %s\n",
            c->name, c->name);
}

void dl_c_put_cmake(dl_buf *b, const dl_c_network *c) {
    const char *name = c->name;
    dl_putf(b,
            "# In a project of yours: add_subdirectory(this folder), then "
            "target_link_libraries(yours %s).\n"
            "# The library %s_fortran has the module, where the project has Fortran.\n"
            "cmake_minimum_required(VERSION 3.16)\nproject(%s C)\n"
            "option(%s_NATIVE \"for the CPU that compiles\" ON)\n"
            "add_library(%s STATIC %s.c %s_weights.c)\n"
            "set_target_properties(%s PROPERTIES C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)\n"
            "set_source_files_properties(%s_weights.c PROPERTIES OBJECT_DEPENDS\n"
            "  ${CMAKE_CURRENT_SOURCE_DIR}/%s_weights.c.bin)\n"
            "target_include_directories(%s PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})\n"
            "target_link_libraries(%s PUBLIC m)\n",
            name, name, name, c->upper, name, name, name, name, name, name, name, name);
    dl_putf(b,
            "if(%s_NATIVE)\n  target_compile_options(%s PRIVATE -march=native)\nendif()\n"
            "if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)\n"
            "  add_executable(%s_example %s)\n  target_link_libraries(%s_example %s)\n"
            "endif()\nget_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)\n"
            "if(\"Fortran\" IN_LIST languages)\n  add_library(%s_fortran STATIC %s.f90)\n"
            "  target_include_directories(%s_fortran PUBLIC ${CMAKE_CURRENT_BINARY_DIR})\n"
            "  target_link_libraries(%s_fortran PUBLIC %s)\nendif()\n",
            c->upper, name, name, dl_c_example(c), name, name, name, name, name, name, name);
}

const char *dl_c_example(const dl_c_network *c) {
    return strcmp(c->name, "example") ? "example.c" : "example_main.c";
}

void dl_c_put_example(dl_buf *b, const dl_c_network *c) {
    int n = n_arrays(c);
    dl_putf(b, "/* Predicts each sample of raw files, without headers:");
    for (int i = 0; i < n; i++) dl_putf(b, " %s", array_at(c, i)->upper);
    dl_putf(b, " */\n#include \"%s.h\"\n#include <stdio.h>\n#include <stdlib.h>\n\n", c->name);
    for (int i = 0; i < n; i++)
        dl_putf(b, "static %s %s[%s_%s_COUNT];\n", dl_c_type(array_at(c, i)->type.dtype),
                array_at(c, i)->id, c->upper, array_at(c, i)->upper);
    dl_putf(b,
            "\nint main(int argc, char **argv) {\n    FILE *file[%d];\n"
            "    void *work = malloc(%s_WORK_BYTES);\n    if (!work || argc != %d) return 2;\n"
            "    for (int i = 0; i < %d; i++)\n"
            "        if (!(file[i] = fopen(argv[i + 1], i < %d ? \"rb\" : \"wb\"))) return 1;\n"
            "    while (",
            n, c->upper, n + 1, n, c->n_inputs);
    for (int i = 0; i < c->n_inputs; i++)
        dl_putf(b, "%sfread(%s, sizeof %s, 1, file[%d]) == 1", i ? " &&\n           " : "",
                c->input[i].id, c->input[i].id, i);
    if (!c->n_inputs) dl_puts(b, "!ftell(file[0])");
    dl_puts(b, ") {\n        if (");
    dl_putf(b, "%s_predict(", c->name);
    for (int i = 0; i < n; i++) dl_putf(b, "%s, ", array_at(c, i)->id);
    dl_puts(b, "work)) return 1;\n");
    for (int i = c->n_inputs; i < n; i++)
        dl_putf(b, "        if (fwrite(%s, sizeof %s, 1, file[%d]) != 1) return 1;\n",
                array_at(c, i)->id, array_at(c, i)->id, i);
    dl_putf(b,
            "    }\n    for (int i = %d; i < %d; i++)\n        if (fclose(file[i])) return 1;\n"
            "    free(work);\n    return 0;\n}\n",
            c->n_inputs, n);
}

static void put_file_line(dl_buf *b, const char *names, const char *use) {
    dl_putf(b, "  %-26s %s\n", names, use);
}

void dl_c_put_readme(dl_buf *b, const dl_c_network *c) {
    const char *name = c->name;
    dl_arena *arena = c->of->arena;
    dl_putf(b, "%s, a trained network, as C\n\n", c->of->name);
    put_file_line(b, dl_format(arena, "%s.h, %s.c", name, name),
                  dl_format(arena, "one function, %s_predict: a sample in, a sample out", name));
    put_file_line(b, dl_format(arena, "%s_weights.c", name),
                  "embeds the weights, which no program reads from a file");
    put_file_line(b, dl_format(arena, "%s_weights.c.bin", name), "the weights");
    put_file_line(b, dl_format(arena, "%s.f90", name), "the same function for Fortran");
    put_file_line(b, dl_format(arena, "%s, CMakeLists.txt", dl_c_example(c)),
                  "a program that predicts raw files, and its build\n");
    for (int i = 0; i < n_arrays(c); i++) {
        dl_puts(b, i < c->n_inputs ? "  in   " : "  out  ");
        put_line(b, array_at(c, i), i >= c->n_inputs);
        dl_puts(b, "\n");
    }
    dl_putf(b,
            "\nCompile all sources with the same options, with GCC 12, Clang 14 or later:\n\n"
            "  cc -O2 -march=native -c %s.c %s_weights.c\n"
            "  cc -O2 %s %s.o %s_weights.o -lm -o predict\n"
            "  gfortran %s.f90 main.f90 %s.o %s_weights.o -lm\n\n",
            name, name, dl_c_example(c), name, name, name, name, name);
    dl_puts(b, "The options choose the kernels, for one of these CPUs, the first that fits:");
    for (int i = 0; i < c->n_variants; i++) dl_putf(b, "%s %s", i ? "," : "", c->variant[i].name);
    dl_putf(
        b,
        ".\nOf each, `dlrun predict --device=cpu:NAME --local_batch_size=1` has the same numbers "
        "to the last bit, where "
        "CC is the same\ncompiler; options such as -ffast-math give others.\n\n"
        "A call needs %s_WORK_BYTES (%lld) bytes of memory from its caller. It allocates "
        "nothing, writes no\nvariable of its own, and opens no file. Nothing of dlc is "
        "needed.\n",
        c->upper, (long long)c->work);
    if (has_integers(c)) dl_puts(b, "Numbers of classes must be in range: nothing checks them.\n");
}
