/* Block allocators: get and put pairs with some hundreds of live blocks, sizes of a training step (64 B to 64 MB),
 * against a first-fit list of blocks. */
#include "sim/base/check.h"
#include "sim/core/blockalloc.h"
#include "tests/bench/bench.h"

enum { LIVE = 1000, PAIRS = 200000, SIZES = 4096 };

static uint64_t sizes[SIZES];

static double run(enum blockalloc_kind kind)
{
    struct blockalloc allocator;
    struct blockalloc_config config = { .kind = kind, .capacity_bytes = (uint64_t)80 << 30 };
    static uint32_t live[LIVE];
    uint64_t random = 3;
    CHECK(blockalloc_init(&allocator, &config, NULL) == STATUS_OK);
    for (unsigned i = 0; i < LIVE; i++) {
        CHECK(blockalloc_get(&allocator, sizes[i], 0, &live[i]) == STATUS_OK);
    }
    double start_s = bench_now_s();
    for (unsigned i = 0; i < PAIRS; i++) {
        unsigned which = (unsigned)(bench_random(&random) % LIVE);
        blockalloc_put(&allocator, live[which]);
        CHECK(blockalloc_get(&allocator, sizes[i % SIZES], 0, &live[which]) == STATUS_OK);
    }
    double ns = (bench_now_s() - start_s) / PAIRS * 1e9;
    blockalloc_destroy(&allocator);
    return ns;
}

/* The plain rival: a list in order of address, searched from the front. */
struct list_block {
    uint64_t bytes;
    int next, previous, is_live;
};

static double run_list(void)
{
    static struct list_block blocks[4 * LIVE];
    static int live[LIVE];
    int spare = 1;
    uint64_t random = 3;
    blocks[0] = (struct list_block){ (uint64_t)80 << 30, -1, -1, 0 };
    for (int i = 1; i < 4 * LIVE; i++) {
        blocks[i].next = i + 1;
    }
    double start_s = 0;
    for (int i = -LIVE; i < PAIRS; i++) {
        int which = i < 0 ? i + LIVE : (int)(bench_random(&random) % LIVE);
        if (i == 0) {
            start_s = bench_now_s();
        }
        if (i >= 0) {
            int b = live[which];
            blocks[b].is_live = 0;
            for (int pass = 0; pass < 2; pass++) {
                int left = pass == 0 ? b : blocks[b].previous, right = left < 0 ? -1 : blocks[left].next;
                if (left >= 0 && right >= 0 && !blocks[left].is_live && !blocks[right].is_live) {
                    blocks[left].bytes += blocks[right].bytes;
                    blocks[left].next = blocks[right].next;
                    if (blocks[left].next >= 0) {
                        blocks[blocks[left].next].previous = left;
                    }
                    blocks[right].next = spare;
                    spare = right;
                }
            }
        }
        uint64_t bytes = (sizes[i < 0 ? which : i % SIZES] + 511) / 512 * 512;
        int at = 0;
        while (blocks[at].is_live || blocks[at].bytes < bytes) {
            at = blocks[at].next;
        }
        if (blocks[at].bytes > bytes) {
            int rest = spare;
            spare = blocks[rest].next;
            blocks[rest] = (struct list_block){ blocks[at].bytes - bytes, blocks[at].next, at, 0 };
            if (blocks[at].next >= 0) {
                blocks[blocks[at].next].previous = rest;
            }
            blocks[at].next = rest;
            blocks[at].bytes = bytes;
        }
        blocks[at].is_live = 1;
        live[which] = at;
    }
    return (bench_now_s() - start_s) / PAIRS * 1e9;
}

int main(void)
{
    uint64_t random = 1;
    double exact[BENCH_ROUNDS], best[BENCH_ROUNDS], caching[BENCH_ROUNDS], list[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    for (int i = 0; i < SIZES; i++) {
        sizes[i] = (uint64_t)64 << bench_random(&random) % 20;
        sizes[i] += bench_random(&random) % sizes[i];
    }
    bench_header("b_core_blockalloc");
    for (int r = 0; r < BENCH_ROUNDS; r++) {
        exact[r] = run(BLOCKALLOC_EXACT);
        best[r] = run(BLOCKALLOC_BEST_FIT);
        caching[r] = run(BLOCKALLOC_CACHING);
        list[r] = run_list();
        ratio[r] = list[r] / best[r];
    }
    printf("put and get, 1000 live blocks: exact %.0f ns, best fit %.0f ns, caching %.0f ns; first-fit list %.0f ns, "
           "ratio to best fit "
           "%.1f\n",
           bench_median(exact, BENCH_ROUNDS), bench_median(best, BENCH_ROUNDS), bench_median(caching, BENCH_ROUNDS),
           bench_median(list, BENCH_ROUNDS), bench_median(ratio, BENCH_ROUNDS));
    return 0;
}
