/* Minimum, maximum, norm, non-finite count and fingerprint of tensors, in one pass over memory.

   `fingerprint.py` in the folder above defines the fingerprint; `one_pass.py` there loads what this file is compiled to.
   C99 with the vector types of GCC and Clang, for machines that store the least significant byte first.

   The results depend on the elements alone, not on their address, the number of threads or the processor: integers are
   added modulo 2**64, and floating-point numbers in a fixed order, since squares are added in the same lanes whatever
   the size of a vector and a tensor has the same pieces for any number of threads. */

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the order of bytes must be little-endian"
#endif

#define INLINE static inline __attribute__((always_inline))

typedef unsigned char byte;
typedef float floats __attribute__((vector_size(16)));
typedef double doubles __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));
typedef int64_t longs __attribute__((vector_size(16)));

/* The types of element. `one_pass.py` has the same numbers. `RAW` bytes have a fingerprint and nothing else. */
enum kind { FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, BOOL, RAW };

static const int64_t item_bytes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1};

struct tensor {
    const byte *data;
    int64_t count; /* elements, at least one */
    int64_t kind;
};

struct summary {
    double minimum, maximum; /* NaN if any element is */
    double norm;             /* of single precision for FLOAT32 and less: infinite where the squares exceed that */
    int64_t nonfinite;
    uint64_t bits;
};

/* The parameters of the fingerprint. A half has 32 bits, a word 64; the second sequence of words starts at the second
   half. */
#define HALF 4
#define WORD 8
#define SHORT_HALVES (1 << 14)
#define COLUMNS_0 2039
#define COLUMNS_1 2029
#define ROW_0 (COLUMNS_0 * WORD)
#define ROW_1 (COLUMNS_1 * WORD)
#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* The rows of the first sequence in a piece, the unit of work for threads: 2 MB. */
#define PIECE_ROWS 128

/* Rows that are read together, so that a sum of a column is loaded and stored once for all of them. */
#define TOGETHER 4

/* The columns of these rows that fill whole vectors. */
#define IN_VECTORS (COLUMNS_1 / 4 * 4)

/* A second thread is worth starting for this much work. */
#define THREAD_BYTES (4 << 20)
#define MOST_THREADS 64

/* A weight is high * 2**32 + low with a signed `low`, so that a half times a weight takes two 32-bit products. */
static int32_t weights_low[SHORT_HALVES];
static uint32_t weights_high[SHORT_HALVES];

__attribute__((constructor)) static void make_weights(void)
{
    for (int i = 0; i < SHORT_HALVES; i++) { /* splitmix64, made odd */
        uint64_t number = (uint64_t)(i + 1) * GOLDEN;
        number = (number ^ number >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        number = (number ^ number >> 27) * UINT64_C(0x94D049BB133111EB);
        number = (number ^ number >> 31) | 1;
        weights_low[i] = (int32_t)(uint32_t)number;
        weights_high[i] = (uint32_t)((number - (uint64_t)weights_low[i]) >> 32);
    }
}

INLINE uint64_t weight(int64_t place)
{
    return ((uint64_t)weights_high[place] << 32) + (uint64_t)weights_low[place];
}

/* Loads from any address. */

#define DEFINE_LOAD(name, type) \
    INLINE type name(const void *address) \
    { \
        type value; \
        memcpy(&value, address, sizeof value); \
        return value; \
    }
DEFINE_LOAD(load_longs, longs)
DEFINE_LOAD(load_float, float)
DEFINE_LOAD(load_double, double)
DEFINE_LOAD(load_int16, int16_t)
DEFINE_LOAD(load_int32, int32_t)
DEFINE_LOAD(load_int64, int64_t)
DEFINE_LOAD(load_uint16, uint16_t)
DEFINE_LOAD(load_uint32, uint32_t)
DEFINE_LOAD(load_uint64, uint64_t)

/* The lesser and the greater of two vectors, lane by lane. What they make of a NaN does not matter: the sum of squares
   says whether there is one. GCC finds the one instruction for this only where no NaN is allowed. */

#if defined(__SSE2__)
#include <emmintrin.h>
INLINE floats lesser(floats a, floats b) { return _mm_min_ps(a, b); }
INLINE floats greater(floats a, floats b) { return _mm_max_ps(a, b); }
INLINE doubles lesser_double(doubles a, doubles b) { return _mm_min_pd(a, b); }
INLINE doubles greater_double(doubles a, doubles b) { return _mm_max_pd(a, b); }
#else
#define DEFINE_CHOICE(name, type, masks, relation) \
    INLINE type name(type a, type b) \
    { \
        masks mask = (masks)(a relation b); \
        return (type)(((masks)a & mask) | ((masks)b & ~mask)); \
    }
DEFINE_CHOICE(lesser, floats, ints, <)
DEFINE_CHOICE(greater, floats, ints, >)
DEFINE_CHOICE(lesser_double, doubles, longs, <)
DEFINE_CHOICE(greater_double, doubles, longs, >)
#endif

/* Minimum, maximum and sum of squares of what has been read so far. */
struct extent {
    floats low, high;
    doubles low_double, high_double;
    doubles squares[2];
};

static const struct extent NOTHING = {
    {INFINITY, INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
    {INFINITY, INFINITY}, {-INFINITY, -INFINITY}, {{0, 0}, {0, 0}},
};

/* Four squares at a time are added in single precision, and these sums in double. */
INLINE void add_floats(struct extent *to, floats a, floats b, floats c, floats d)
{
    floats squares = (a * a + b * b) + (c * c + d * d);
    to->low = lesser(lesser(lesser(a, b), lesser(c, d)), to->low);
    to->high = greater(greater(greater(a, b), greater(c, d)), to->high);
    to->squares[0] += (doubles){squares[0], squares[1]};
    to->squares[1] += (doubles){squares[2], squares[3]};
}

INLINE void add_doubles(struct extent *to, doubles a, doubles b, doubles c, doubles d)
{
    to->low_double = lesser_double(lesser_double(lesser_double(a, b), lesser_double(c, d)), to->low_double);
    to->high_double = greater_double(greater_double(greater_double(a, b), greater_double(c, d)), to->high_double);
    to->squares[0] += a * a + b * b;
    to->squares[1] += c * c + d * d;
}

INLINE void add_one(struct extent *to, double value)
{
    doubles both = {value, value};
    to->low_double = lesser_double(both, to->low_double);
    to->high_double = greater_double(both, to->high_double);
    to->squares[0] += (doubles){value * value, 0};
}

INLINE void read_floats(struct extent *to, const byte *data, int64_t count)
{
    for (; count >= 16; count -= 16, data += 64)
        add_floats(to, (floats)load_longs(data), (floats)load_longs(data + 16), (floats)load_longs(data + 32),
                   (floats)load_longs(data + 48));
    for (; count > 0; count--, data += 4)
        add_one(to, load_float(data));
}

INLINE void read_doubles(struct extent *to, const byte *data, int64_t count)
{
    for (; count >= 8; count -= 8, data += 64)
        add_doubles(to, (doubles)load_longs(data), (doubles)load_longs(data + 16), (doubles)load_longs(data + 32),
                    (doubles)load_longs(data + 48));
    for (; count > 0; count--, data += 8)
        add_one(to, load_double(data));
}

#define BLOCK 1024 /* elements */

/* Elements whose exponent has no bit that is not set. */
#define COUNT_NONFINITE(load, size, exponent) \
    for (int64_t start = 0; start < count; start += BLOCK) { \
        int64_t end = count - start < BLOCK ? count : start + BLOCK; \
        uint32_t in_block = 0; \
        for (int64_t i = start; i < end; i++) \
            in_block += (load(data + i * (size)) & (exponent)) == (exponent); \
        found += in_block; \
    } \
    break;

INLINE int64_t count_nonfinite(const byte *data, int64_t count, int64_t kind)
{
    int64_t found = 0;
    switch (kind) {
    case FLOAT32: COUNT_NONFINITE(load_uint32, 4, 0x7f800000u)
    case FLOAT64: COUNT_NONFINITE(load_uint64, 8, UINT64_C(0x7ff0000000000000))
    case FLOAT16: COUNT_NONFINITE(load_uint16, 2, 0x7c00)
    case BFLOAT16: COUNT_NONFINITE(load_uint16, 2, 0x7f80)
    }
    return found;
}

/* The sums of the columns of both sequences. */
struct sums {
    int64_t first[COLUMNS_0], second[COLUMNS_1];
};

/* Processors load ahead within a page of memory, and rows are longer than that. So the next rows are asked for here, in
   the order of their addresses; beyond the end of the tensor that has no effect. */
INLINE void load_ahead(const byte *row, int column)
{
    __builtin_prefetch(row + TOGETHER * (ROW_0 + column * WORD));
}

/* Add the first columns of `TOGETHER` rows of both sequences to their sums, and the elements of the first to the extent. */
INLINE void add_columns(struct sums *sums, const byte *row_0, const byte *row_1, struct extent *to, int64_t kind)
{
    int64_t *sums_0 = sums->first, *sums_1 = sums->second;
    struct extent found = *to; /* In registers, where no store to the sums can change it. */
    for (int column = 0; column < IN_VECTORS; column += 2) {
        if (kind == FLOAT32 || kind == FLOAT64)
            load_ahead(row_0, column);
        const byte *place = row_0 + column * WORD, *other = row_1 + column * WORD;
        longs a = load_longs(place), b = load_longs(place + ROW_0);
        longs c = load_longs(place + 2 * ROW_0), d = load_longs(place + 3 * ROW_0);
        if (kind == FLOAT32)
            add_floats(&found, (floats)a, (floats)b, (floats)c, (floats)d);
        if (kind == FLOAT64)
            add_doubles(&found, (doubles)a, (doubles)b, (doubles)c, (doubles)d);
        longs sum_0 = load_longs(sums_0 + column) + ((a + b) + (c + d));
        longs sum_1 = load_longs(sums_1 + column) + ((load_longs(other) + load_longs(other + ROW_1))
                                                     + (load_longs(other + 2 * ROW_1) + load_longs(other + 3 * ROW_1)));
        memcpy(sums_0 + column, &sum_0, sizeof sum_0);
        memcpy(sums_1 + column, &sum_1, sizeof sum_1);
    }
    *to = found;
}

INLINE uint64_t weigh(const int64_t *sums, int columns, int64_t place)
{
    uint64_t weighted = 0;
    for (int column = 0; column < columns; column++)
        weighted += (uint64_t)sums[column] * weight(place + column);
    return weighted;
}

/* The sum of the halves from `first` to `end`, each times its weight. */
INLINE uint64_t weigh_halves(const byte *data, int64_t first, int64_t end)
{
    uint64_t by_low = 0;
    uint32_t by_high = 0;
    for (int64_t i = first; i < end; i++) {
        int32_t half = load_int32(data + i * HALF);
        by_low += (uint64_t)((int64_t)half * weights_low[i]);
        by_high += (uint32_t)half * weights_high[i];
    }
    return by_low + ((uint64_t)by_high << 32);
}

/* The loops that take nearly all the time, for any processor. */

static void read_floats_plainly(struct extent *to, const byte *data, int64_t count)
{
    read_floats(to, data, count);
}

static void add_columns_plainly(struct sums *sums, const byte *row_0, const byte *row_1, struct extent *to, int64_t kind)
{
    if (kind == FLOAT32) /* Each time with a constant, so that the loop is made for it. */
        add_columns(sums, row_0, row_1, to, FLOAT32);
    else if (kind == FLOAT64)
        add_columns(sums, row_0, row_1, to, FLOAT64);
    else
        add_columns(sums, row_0, row_1, to, RAW);
}

static uint64_t weigh_halves_plainly(const byte *data, int64_t count)
{
    return weigh_halves(data, 0, count);
}

static uint64_t weigh_plainly(const int64_t *sums, int columns, int64_t place)
{
    return weigh(sums, columns, place);
}

static int64_t count_nonfinite_plainly(const byte *data, int64_t count, int64_t kind)
{
    return count_nonfinite(data, count, kind);
}

static struct {
    void (*read_floats)(struct extent *, const byte *, int64_t);
    void (*add_columns)(struct sums *, const byte *, const byte *, struct extent *, int64_t);
    uint64_t (*weigh)(const int64_t *, int, int64_t);
    uint64_t (*weigh_halves)(const byte *, int64_t);
    int64_t (*count_nonfinite)(const byte *, int64_t, int64_t);
} loops = {read_floats_plainly, add_columns_plainly, weigh_plainly, weigh_halves_plainly, count_nonfinite_plainly};

#if defined(__x86_64__) && !defined(PLAIN) /* A test defines it. */
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))

/* The same for processors with AVX2, which have vectors of twice the size. The squares are added in the same order as
   above: those of the lower half of a vector first. */

struct wide_extent {
    __m256 low, high;
    __m256d squares;
};

AVX2 INLINE struct wide_extent widened(const struct extent *from)
{
    return (struct wide_extent){_mm256_set1_ps(INFINITY), _mm256_set1_ps(-INFINITY),
                                _mm256_loadu_pd((const double *)from->squares)};
}

AVX2 INLINE void narrow(struct extent *to, const struct wide_extent *from)
{
    to->low = lesser(lesser(_mm256_castps256_ps128(from->low), _mm256_extractf128_ps(from->low, 1)), to->low);
    to->high = greater(greater(_mm256_castps256_ps128(from->high), _mm256_extractf128_ps(from->high, 1)), to->high);
    _mm256_storeu_pd((double *)to->squares, from->squares);
}

AVX2 INLINE void add_wide(struct wide_extent *to, __m256 a, __m256 b, __m256 c, __m256 d)
{
    __m256 squares = (a * a + b * b) + (c * c + d * d);
    to->low = _mm256_min_ps(_mm256_min_ps(_mm256_min_ps(a, b), _mm256_min_ps(c, d)), to->low);
    to->high = _mm256_max_ps(_mm256_max_ps(_mm256_max_ps(a, b), _mm256_max_ps(c, d)), to->high);
    to->squares += _mm256_cvtps_pd(_mm256_castps256_ps128(squares));
    to->squares += _mm256_cvtps_pd(_mm256_extractf128_ps(squares, 1));
}

/* Four floats here and four there, sixteen further on. */
AVX2 INLINE __m256 load_both(const byte *data)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const float *)data)),
                                _mm_loadu_ps((const float *)(data + 64)), 1);
}

AVX2 static void read_floats_by_avx2(struct extent *to, const byte *data, int64_t count)
{
    struct wide_extent found = widened(to);
    for (; count >= 32; count -= 32, data += 128)
        add_wide(&found, load_both(data), load_both(data + 16), load_both(data + 32), load_both(data + 48));
    narrow(to, &found);
    read_floats(to, data, count);
}

AVX2 INLINE __m256i load_wide(const byte *data)
{
    return _mm256_loadu_si256((const __m256i *)data);
}

AVX2 INLINE void add_to(int64_t *sums, const byte *row, int64_t row_bytes)
{
    __m256i more = _mm256_add_epi64(_mm256_add_epi64(load_wide(row), load_wide(row + row_bytes)),
                                    _mm256_add_epi64(load_wide(row + 2 * row_bytes), load_wide(row + 3 * row_bytes)));
    _mm256_storeu_si256((__m256i *)sums, _mm256_add_epi64(load_wide((const byte *)sums), more));
}

AVX2 static void
add_columns_by_avx2(struct sums *sums, const byte *row_0, const byte *row_1, struct extent *to, int64_t kind)
{
    if (kind == FLOAT64) {
        add_columns(sums, row_0, row_1, to, FLOAT64);
        return;
    }
    struct wide_extent found = widened(to);
    for (int column = 0; column < IN_VECTORS; column += 4) {
        const byte *place = row_0 + column * WORD;
        if (kind == FLOAT32) {
            load_ahead(row_0, column);
            load_ahead(row_0, column + 2);
        }
        add_to(sums->first + column, place, ROW_0);
        add_to(sums->second + column, row_1 + column * WORD, ROW_1);
        if (kind == FLOAT32)
            add_wide(&found, (__m256)load_wide(place), (__m256)load_wide(place + ROW_0),
                     (__m256)load_wide(place + 2 * ROW_0), (__m256)load_wide(place + 3 * ROW_0));
    }
    narrow(to, &found);
}

/* Halves are multiplied where they lie, in the lower and then in the upper half of their words. */
AVX2 static uint64_t weigh_halves_by_avx2(const byte *data, int64_t count)
{
    __m256i by_low = _mm256_setzero_si256(), by_high = by_low;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i halves = load_wide(data + i * HALF), low = load_wide((const byte *)(weights_low + i));
        by_low = _mm256_add_epi64(by_low, _mm256_mul_epi32(halves, low));
        by_low = _mm256_add_epi64(by_low, _mm256_mul_epi32(_mm256_srli_epi64(halves, 32), _mm256_srli_epi64(low, 32)));
        by_high = _mm256_add_epi32(by_high, _mm256_mullo_epi32(halves, load_wide((const byte *)(weights_high + i))));
    }
    int64_t low[4];
    uint32_t high[8], sum = 0;
    _mm256_storeu_si256((__m256i *)low, by_low);
    _mm256_storeu_si256((__m256i *)high, by_high);
    for (int lane = 0; lane < 8; lane++)
        sum += high[lane];
    return (uint64_t)low[0] + (uint64_t)low[1] + (uint64_t)low[2] + (uint64_t)low[3] + ((uint64_t)sum << 32)
           + weigh_halves(data, i, count);
}

AVX2 static uint64_t weigh_by_avx2(const int64_t *sums, int columns, int64_t place)
{
    return weigh(sums, columns, place);
}

AVX2 static int64_t count_nonfinite_by_avx2(const byte *data, int64_t count, int64_t kind)
{
    return count_nonfinite(data, count, kind);
}

__attribute__((constructor)) static void choose(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        loops.read_floats = read_floats_by_avx2;
        loops.add_columns = add_columns_by_avx2;
        loops.weigh = weigh_by_avx2;
        loops.weigh_halves = weigh_halves_by_avx2;
        loops.count_nonfinite = count_nonfinite_by_avx2;
    }
}
#endif

INLINE float from_float16(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    float scaled = load_float(&magnitude) * 0x1p112f; /* the exponent's bias, right for subnormal numbers too */
    uint32_t bits = load_uint32(&scaled);
    bits |= scaled >= 65536.0f ? 0x7f800000u : 0u; /* an infinity or a NaN */
    bits |= (uint32_t)(half & 0x8000) << 16;
    return load_float(&bits);
}

INLINE float from_bfloat16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    return load_float(&bits);
}

/* Read elements of another type as floats or doubles, a block at a time. */
#define READ_CONVERTED(number, read, size, expression) \
    for (int64_t start = 0; start < count; start += BLOCK) { \
        number block[BLOCK]; \
        int64_t filled = count - start < BLOCK ? count - start : BLOCK; \
        for (int64_t i = 0; i < filled; i++) { \
            const byte *item = data + (start + i) * (size); \
            block[i] = (number)(expression); \
        } \
        read(to, (const byte *)block, filled); \
    } \
    break;

static void read_converted(struct extent *to, const byte *data, int64_t count, int64_t kind)
{
    switch (kind) {
    case FLOAT16: READ_CONVERTED(float, loops.read_floats, 2, from_float16(load_uint16(item)))
    case BFLOAT16: READ_CONVERTED(float, loops.read_floats, 2, from_bfloat16(load_uint16(item)))
    case INT8: READ_CONVERTED(double, read_doubles, 1, (int8_t)*item)
    case INT16: READ_CONVERTED(double, read_doubles, 2, load_int16(item))
    case INT32: READ_CONVERTED(double, read_doubles, 4, load_int32(item))
    case INT64: READ_CONVERTED(double, read_doubles, 8, load_int64(item))
    case UINT8: READ_CONVERTED(double, read_doubles, 1, *item)
    case UINT16: READ_CONVERTED(double, read_doubles, 2, load_uint16(item))
    case UINT32: READ_CONVERTED(double, read_doubles, 4, load_uint32(item))
    case UINT64: READ_CONVERTED(double, read_doubles, 8, load_uint64(item))
    case BOOL: READ_CONVERTED(double, read_doubles, 1, *item != 0)
    }
}

INLINE void read_elements(struct extent *to, const byte *data, int64_t count, int64_t kind)
{
    if (kind == FLOAT32)
        loops.read_floats(to, data, count);
    else if (kind == FLOAT64)
        read_doubles(to, data, count);
    else
        read_converted(to, data, count, kind);
}

INLINE void add_row(int64_t *sums, const byte *row, int columns)
{
    for (int column = 0; column < columns; column++)
        sums[column] += load_int64(row + column * WORD);
}

/* Add their other columns. */
INLINE void add_last_columns(struct sums *sums, const byte *row_0, const byte *row_1, struct extent *to, int64_t kind)
{
    for (int row = 0; row < TOGETHER; row++) {
        const byte *rest = row_0 + row * ROW_0 + IN_VECTORS * WORD;
        add_row(sums->first + IN_VECTORS, rest, COLUMNS_0 - IN_VECTORS);
        add_row(sums->second + IN_VECTORS, row_1 + row * ROW_1 + IN_VECTORS * WORD, COLUMNS_1 - IN_VECTORS);
        if (kind == FLOAT32 || kind == FLOAT64)
            read_elements(to, rest, (COLUMNS_0 - IN_VECTORS) * WORD / item_bytes[kind], kind);
    }
}

/* What is known of a piece of a tensor. `weighted` is its share of the weighted sum. */
struct part {
    double low, high, squares;
    int64_t nonfinite;
    uint64_t weighted;
};

INLINE void merge(struct part *into, const struct part *next)
{
    into->low = next->low < into->low ? next->low : into->low;
    into->high = next->high > into->high ? next->high : into->high;
    into->squares += next->squares;
    into->nonfinite += next->nonfinite;
    into->weighted += next->weighted;
}

INLINE void set_extent(struct part *part, const struct extent *from)
{
    doubles low = from->low_double, high = from->high_double;
    for (int i = 0; i < 4; i++) {
        low = lesser_double((doubles){from->low[i], from->low[i]}, low);
        high = greater_double((doubles){from->high[i], from->high[i]}, high);
    }
    doubles squares = from->squares[0] + from->squares[1];
    part->low = low[0] < low[1] ? low[0] : low[1];
    part->high = high[0] > high[1] ? high[0] : high[1];
    part->squares = squares[0] + squares[1];
}

/* How the sequences of words lie in a large tensor. */
struct layout {
    int64_t bytes;
    int64_t words[2];    /* the last of which may reach beyond the bytes, which zeros fill up to a whole half */
    int64_t rows[2];     /* that these words fill */
    int64_t present[2];  /* those of the rows that lie within the bytes, one less at most */
    int64_t pieces;
};

INLINE struct layout layout_of(int64_t bytes)
{
    int64_t halves = (bytes + HALF - 1) / HALF;
    struct layout made = {bytes, {halves / 2, (halves - 1) / 2}, {0, 0}, {0, 0}, 1};
    if (halves > SHORT_HALVES) {
        made.rows[0] = made.words[0] / COLUMNS_0;
        made.rows[1] = made.words[1] / COLUMNS_1;
        made.present[0] = made.rows[0] * ROW_0 <= bytes ? made.rows[0] : made.rows[0] - 1;
        made.present[1] = HALF + made.rows[1] * ROW_1 <= bytes ? made.rows[1] : made.rows[1] - 1;
        made.pieces = (made.present[0] + PIECE_ROWS - 1) / PIECE_ROWS;
    }
    return made;
}

/* Read a piece of a tensor of more than `SHORT_HALVES`; the last piece has all that fills no row, too. */
static void read_large(const byte *data, int64_t kind, const struct layout *lies, int64_t piece, struct part *part)
{
    struct sums sums = {{0}, {0}};
    struct extent found = NOTHING;
    int is_last = piece == lies->pieces - 1;
    int64_t row_0 = piece * PIECE_ROWS, end_0 = is_last ? lies->present[0] : row_0 + PIECE_ROWS;
    int64_t row_1 = row_0 * COLUMNS_0 / COLUMNS_1, end_1 = is_last ? lies->present[1] : end_0 * COLUMNS_0 / COLUMNS_1;
    int is_fused = kind == FLOAT32 || kind == FLOAT64;
    int64_t size = item_bytes[kind];

    while (end_0 - row_0 >= TOGETHER && end_1 - row_1 >= TOGETHER) {
        const byte *place = data + row_0 * ROW_0;
        if (!is_fused)
            read_elements(&found, place, TOGETHER * ROW_0 / size, kind);
        const byte *other = data + HALF + row_1 * ROW_1;
        loops.add_columns(&sums, place, other, &found, kind);
        add_last_columns(&sums, place, other, &found, kind);
        row_0 += TOGETHER;
        row_1 += TOGETHER;
    }
    int64_t read = row_0 * ROW_0;
    read_elements(&found, data + read, ((is_last ? lies->bytes : end_0 * ROW_0) - read) / size, kind);
    for (; row_0 < end_0; row_0++)
        add_row(sums.first, data + row_0 * ROW_0, COLUMNS_0);
    for (; row_1 < end_1; row_1++)
        add_row(sums.second, data + HALF + row_1 * ROW_1, COLUMNS_1);

    int64_t rest[2] = {lies->words[0] - lies->rows[0] * COLUMNS_0, lies->words[1] - lies->rows[1] * COLUMNS_1};
    int64_t place_1 = COLUMNS_0 + rest[0], place_last = place_1 + COLUMNS_1 + rest[1];
    if (is_last) { /* The words behind the rows, read from a copy that zeros follow. */
        byte copy[2 * ROW_0 + WORD] = {0};
        int64_t from_0 = row_0 * ROW_0, from_1 = HALF + row_1 * ROW_1, from = from_0 < from_1 ? from_0 : from_1;
        memcpy(copy, data + from, lies->bytes - from);
        int64_t in_rows_0 = lies->rows[0] * COLUMNS_0, in_rows_1 = lies->rows[1] * COLUMNS_1;
        for (int64_t i = row_0 * COLUMNS_0; i < lies->words[0]; i++) {
            uint64_t word = load_uint64(copy + i * WORD - from);
            int64_t place = i < in_rows_0 ? i - row_0 * COLUMNS_0 : COLUMNS_0 + i - in_rows_0;
            part->weighted += word * weight(place);
        }
        for (int64_t i = row_1 * COLUMNS_1; i < lies->words[1]; i++) {
            uint64_t word = load_uint64(copy + HALF + i * WORD - from);
            int64_t place = i < in_rows_1 ? i - row_1 * COLUMNS_1 : COLUMNS_1 + i - in_rows_1;
            part->weighted += word * weight(place_1 + place);
        }
        int32_t last = load_int32(copy + (lies->bytes - 1) / HALF * HALF - from);
        part->weighted += (uint64_t)last * weight(place_last);
    }
    part->weighted += loops.weigh(sums.first, COLUMNS_0, 0) + loops.weigh(sums.second, COLUMNS_1, place_1);
    set_extent(part, &found);
}

static void read_short(const byte *data, int64_t kind, int64_t bytes, struct part *part)
{
    struct extent found = NOTHING;
    read_elements(&found, data, bytes / item_bytes[kind], kind);
    set_extent(part, &found);
    int64_t whole = bytes / HALF;
    part->weighted = loops.weigh_halves(data, whole);
    if (bytes % HALF) {
        int32_t last = 0;
        memcpy(&last, data + whole * HALF, bytes % HALF);
        part->weighted += (uint64_t)last * weight(whole);
    }
}

static void read_piece(const struct tensor *tensor, const struct layout *lies, int64_t piece, struct part *part)
{
    *part = (struct part){0};
    if (lies->rows[0] == 0)
        read_short(tensor->data, tensor->kind, lies->bytes, part);
    else
        read_large(tensor->data, tensor->kind, lies, piece, part);
    if (part->squares - part->squares != 0) { /* Only then may an element be a NaN or an infinity. */
        int64_t size = item_bytes[tensor->kind], from = piece * PIECE_ROWS * ROW_0;
        int64_t end = piece == lies->pieces - 1 ? lies->bytes : from + PIECE_ROWS * ROW_0;
        part->nonfinite = loops.count_nonfinite(tensor->data + from, (end - from) / size, tensor->kind);
    }
}

INLINE int is_single(int64_t kind)
{
    return kind == FLOAT32 || kind == FLOAT16 || kind == BFLOAT16;
}

static struct summary summary_of(const struct tensor *tensor, const struct part *whole)
{
    struct summary made = {whole->low + 0.0, whole->high + 0.0, sqrt(whole->squares), whole->nonfinite, 0};
    if (whole->squares != whole->squares)
        made.minimum = made.maximum = made.norm;
    else if (tensor->count == 1)
        made.norm = fabs(made.minimum);
    else if (is_single(tensor->kind))
        made.norm = whole->squares > FLT_MAX ? INFINITY : (float)made.norm;
    made.bits = whole->weighted + (uint64_t)(tensor->count * item_bytes[tensor->kind]) * GOLDEN;
    return made;
}

/* The pieces of several tensors, one after the other, and what threads have found of them. */
struct work {
    const struct tensor *tensors;
    struct part *parts;
    int64_t pieces;
    int64_t next; /* the piece that the next thread is to take */
};

static void *do_work(void *given)
{
    struct work *work = given;
    const struct tensor *tensor = work->tensors;
    struct layout lies = layout_of(tensor->count * item_bytes[tensor->kind]);
    int64_t first = 0; /* piece of `tensor` */
    for (;;) {
        int64_t piece = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        if (piece >= work->pieces)
            return NULL;
        while (piece - first >= lies.pieces) {
            first += lies.pieces;
            tensor++;
            lies = layout_of(tensor->count * item_bytes[tensor->kind]);
        }
        read_piece(tensor, &lies, piece - first, &work->parts[piece]);
    }
}

/* Do the work on this thread and as many others; what cannot be started is not needed. They have all signals blocked:
   a handler of the program's runs on threads of the program's. */
static void do_work_on(struct work *work, int64_t threads)
{
    pthread_t started[MOST_THREADS];
    int64_t count = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (count < threads - 1 && count < MOST_THREADS && pthread_create(&started[count], NULL, do_work, work) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    do_work(work);
    while (count > 0)
        pthread_join(started[--count], NULL);
}

/* Put a summary of each of `count` tensors into `summaries`, with at most so many threads. */
void one_pass_summarize(const struct tensor *tensors, int64_t count, struct summary *summaries, int64_t threads)
{
    struct work work = {tensors, NULL, 0, 0};
    int64_t bytes = 0;
    for (int64_t i = 0; i < count && threads > 1; i++) {
        struct layout lies = layout_of(tensors[i].count * item_bytes[tensors[i].kind]);
        bytes += lies.bytes;
        work.pieces += lies.pieces;
    }
    if (threads > bytes / THREAD_BYTES)
        threads = bytes / THREAD_BYTES;
    if (threads > 1)
        work.parts = malloc(work.pieces * sizeof *work.parts);
    if (work.parts != NULL)
        do_work_on(&work, threads);
    const struct part *found = work.parts;
    for (int64_t i = 0; i < count; i++) {
        struct layout lies = layout_of(tensors[i].count * item_bytes[tensors[i].kind]);
        struct part whole = {INFINITY, -INFINITY, 0, 0, 0}, part;
        for (int64_t piece = 0; piece < lies.pieces; piece++) {
            if (found == NULL)
                read_piece(&tensors[i], &lies, piece, &part);
            merge(&whole, found == NULL ? &part : found++);
        }
        summaries[i] = summary_of(&tensors[i], &whole);
    }
    free(work.parts);
}

/* How many of the elements are NaN or infinite. */
int64_t one_pass_count_nonfinite(const void *data, int64_t count, int64_t kind)
{
    return loops.count_nonfinite(data, count, kind);
}

/* What `SOURCE` was when this was compiled: a digest of this file. */
const char *one_pass_source(void)
{
    return SOURCE;
}
