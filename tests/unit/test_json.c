/* JSON read and written, UTF-8, and the checksum of files. */
#include <stdlib.h>

#include "ir/base/arena.h"
#include "runtime/formats/checksum.h"
#include "runtime/formats/crc32c.h"
#include "runtime/formats/json.h"
#include "tests/check.h"

static const dlr_json *parse_n(dl_arena *a, const char *text, size_t n, dl_error *err) {
    *err = (dl_error){0};
    /* A copy of exactly n bytes, so that a sanitizer sees a read past the end. */
    char *exact = malloc(n + (n == 0));
    memcpy(exact, text, n);
    const dlr_json *v =
        dlr_json_parse(a, exact, n, (dlr_json_limits){.depth = 4, .values = 50}, "f.json", err);
    free(exact);
    return v;
}

/* Python's json module writes NaN and infinities, which JSON does not have. */
static void test_python(dl_arena *a) {
    static const char text[] = "[NaN, Infinity, -Infinity, -1, 18446744073709551615]";
    dl_error err = {0};
    CHECK(!parse_n(a, text, strlen(text), &err) && err.code == DL_INPUT);
    err = (dl_error){0};
    const dlr_json *v = dlr_json_parse_python(
        a, text, strlen(text), (dlr_json_limits){.depth = 4, .values = 50}, "f.json", &err);
    CHECK(v && v->n == 5, "%s", err.message);
    if (!v) return;
    CHECK(v->items[0].real != v->items[0].real && v->items[1].real == __builtin_inf() &&
          v->items[2].real == -__builtin_inf() && v->items[3].integer == -1);
    CHECK(v->items[4].kind == DLR_JSON_REAL && v->items[4].digits &&
          strcmp(v->items[4].digits, "18446744073709551615") == 0);
}

static void test_valid(dl_arena *a) {
    dl_error err;
    const char *text = " {\"b\": [1, -2.5e3, true, null, \"x\\u00e9\\ud83d\\ude00\\n\"], \"a\": "
                       "{\"\": 9007199254740993}} ";
    const dlr_json *v = parse_n(a, text, strlen(text), &err);
    CHECK(v && v->kind == DLR_JSON_OBJECT && v->n == 2, "%s", err.message);
    const dlr_json *b = dlr_json_get(v, "b");
    CHECK(b && b->kind == DLR_JSON_ARRAY && b->n == 5);
    CHECK(b->items[0].kind == DLR_JSON_INT && b->items[0].integer == 1);
    CHECK(b->items[1].kind == DLR_JSON_REAL && b->items[1].real == -2500);
    CHECK(b->items[2].kind == DLR_JSON_BOOL && b->items[2].boolean &&
          b->items[3].kind == DLR_JSON_NULL);
    CHECK_STR(b->items[4].string, "x\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK(dlr_json_get(dlr_json_get(v, "a"), "")->integer == 9007199254740993);
    CHECK(!dlr_json_get(v, "c") && !dlr_json_get(b, "a") && !dlr_json_get(NULL, "a"));
    /* Where 64 bits end, and the zero that an integer would lose. */
    text = "[9223372036854775807, -9223372036854775808, 9223372036854775808, -0]";
    v = parse_n(a, text, strlen(text), &err);
    CHECK(v && v->items[0].integer == INT64_MAX && v->items[1].integer == INT64_MIN);
    CHECK(v->items[2].kind == DLR_JSON_REAL && v->items[2].real == 0x1p63);
    CHECK(v->items[3].kind == DLR_JSON_REAL && signbit(v->items[3].real));
}

static void test_faults(dl_arena *a) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "ends"},
        {"{", "key"},
        {"[1", "','"},
        {"[1,]", "expected a value"},
        {"{\"a\":1,}", "key"},
        {"{\"a\" 1}", "':'"},
        {"{a:1}", "key"},
        {"{\"a\":1,\"a\":2}", "twice"},
        {"{\"a\":1,\"\\u0061\":2}", "twice"},
        {"1 2", "follows"},
        {"01", "leading zero"},
        {"1.", "decimal point"},
        {"1e", "exponent"},
        {"-", "expected a value"},
        {"+1", "expected a value"},
        {"nan", "expected a value"},
        {"NaN", "expected a value"},
        {"tru", "expected a value"},
        {"\"a", "closing quote"},
        {"\"\\\"", "closing quote"},
        {"\"\\x\"", "escape"},
        {"\"\\u12\"", "hexadecimal"},
        {"\"\\u0000\"", "U+0000"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\ud800\\u0041\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"\n\"", "control character"},
        {"\"\xff\"", "UTF-8"},
        {"\"\xc0\x80\"", "UTF-8"},
        {"\"\xed\xa0\x80\"", "UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "UTF-8"},
        {"\"\xe2\x82\"", "UTF-8"},
        {"[[[[[1]]]]]", "deeply"},
        {"[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,"
         "1]",
         "more values"},
    };
    dl_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dlr_json *v = parse_n(a, cases[i].text, strlen(cases[i].text), &err);
        CHECK(!v && err.code == DL_INPUT && strstr(err.message, cases[i].says) &&
                  strstr(err.message, "f.json"),
              "'%s' says '%s'", cases[i].text, err.message);
    }
    CHECK(!parse_n(a, "\"\\u0041\0\"", 9, &err) && strstr(err.message, "control"), "%s",
          err.message);
    char digits[500];
    memset(digits, '1', sizeof digits);
    CHECK(!parse_n(a, digits, sizeof digits, &err) && strstr(err.message, "400"), "%s",
          err.message);
}

/* Every single-bit flip and every cut of a text either parses or is refused; a sanitizer watches.
 */
static void test_damage(dl_arena *a) {
    char text[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3e1],\"o\\u00e9\":[0,24,null,true]}}";
    size_t n = strlen(text);
    dl_error err;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        const dlr_json *v = parse_n(a, text, n, &err);
        CHECK((v != NULL) == (err.code == DL_OK), "bit %zu", bit);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t cut = 0; cut < n; cut++)
        CHECK(!parse_n(a, text, cut, &err) && err.code == DL_INPUT);
}

static void test_write(dl_arena *a) {
    dl_buf b = {0};
    dl_puts(&b, "{");
    dlr_json_put_key(&b, "Loss/\"valid\"");
    dlr_json_put_double(&b, 0.1);
    dlr_json_put_key(&b, "x");
    dlr_json_put_double(&b, NAN);
    dlr_json_put_key(&b, "y");
    dlr_json_put_exact(&b, -INFINITY);
    dlr_json_put_key(&b, "z");
    dlr_json_put_string(&b, "tab\there \x01 bad \xff end");
    dl_puts(&b, "}");
    CHECK_STR(b.at, "{\"Loss/\\\"valid\\\"\": 0.1, \"x\": null, \"y\": \"-inf\", "
                    "\"z\": \"tab\\there \\u0001 bad \xef\xbf\xbd end\"}");
    dl_error err;
    const dlr_json *v = parse_n(a, b.at, b.n, &err);
    double y = 0;
    CHECK(v && dlr_json_number(dlr_json_get(v, "y"), &y) && y == -INFINITY);
    CHECK(!dlr_json_number(dlr_json_get(v, "z"), &y));
    dl_buf_free(&b);

    const char text[] =
        "{\"a\": [], \"b\": {}, \"c\": [1, -2.5, 1e-08, null, true, false, \"x\\ty\"], "
        "\"d\": {\"e\": 9007199254740993, \"f\": [{\"g\": \"\"}]}}";
    v = parse_n(a, text, strlen(text), &err);
    b = (dl_buf){0};
    dlr_json_put(&b, v);
    CHECK_STR(b.at, text);
    dl_buf_free(&b);
}

static uint64_t sum_of(const void *data, size_t n, size_t piece) {
    dlr_checksum sum;
    dlr_checksum_start(&sum);
    for (size_t at = 0; at < n; at += piece)
        dlr_checksum_add(&sum, (const char *)data + at, n - at < piece ? n - at : piece);
    return dlr_checksum_value(&sum);
}

static void test_checksum(void) {
    unsigned char data[200];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37);
    uint64_t whole = sum_of(data, sizeof data, sizeof data);
    for (size_t piece = 1; piece < 70; piece++)
        CHECK(sum_of(data, sizeof data, piece) == whole, "piece %zu", piece);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(sum_of(data, sizeof data, 64) != whole, "bit %zu", bit);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t n = 0; n < sizeof data; n++) CHECK(sum_of(data, n, 64) != whole, "length %zu", n);
    unsigned char zeros[64] = {0};
    CHECK(sum_of(zeros, 31, 64) != sum_of(zeros, 32, 64) &&
          sum_of(zeros, 0, 64) != sum_of(zeros, 32, 64));
    /* Frozen: a checkpoint written today must verify for ever. */
    CHECK(whole == 0x37b5cd36cfbde5c8u, "0x%016llxu", (unsigned long long)whole);
    CHECK(dlr_crc32c("123456789", 9) == 0xe3069283); /* the check value of the CRC catalogue */
}

int main(void) {
    dl_arena *a = dl_arena_new(NULL);
    test_python(a);
    test_valid(a);
    test_faults(a);
    test_damage(a);
    test_write(a);
    test_checksum();
    dl_arena_free(a);
    return dl_test_end();
}
