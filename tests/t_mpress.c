/* MPress, what needs no simulator: striping over direct links and the device mapping, against the figures of facts/mpress-hippie-pipelines.md A.5 and A.7, and against plain twins. */
#include "mpress_machines.h"
#include "strategies/planners/mpress_mapping.h"
#include "strategies/policies/mpress_striping.h"
#include "test.h"

static const double GB = 1e9, LINK_BYTES_PER_S = 25e9;

/* The time of the copy in ms; the shares must add up. */
static double stripe_ms(double bytes, const struct mpress_peer *peers, uint32_t count, double *shares)
{
    const struct mpress_stripes stripes = mpress_stripe(bytes, peers, count, shares);
    EXPECT_REAL(stripes.placed_bytes, bytes, 0);
    return 1e3 * stripes.bytes_per_link / LINK_BYTES_PER_S;
}

static void test_striping_goldens(void)
{
    const struct mpress_peer all[] = { { 1, 10 * GB }, { 1, 10 * GB }, { 2, 10 * GB }, { 2, 10 * GB } };
    const struct mpress_peer two[] = { { 1, 0 }, { 1, 0 }, { 2, 10 * GB }, { 2, 10 * GB } };
    const struct mpress_peer small[] = { { 1, 0.1 * GB }, { 1, 10 * GB }, { 2, 10 * GB }, { 2, 10 * GB } };
    const struct mpress_peer bound[] = { { 1, 1 * GB }, { 2, 1 * GB }, { 2, 1 * GB } };
    double shares[4];
    EXPECT_REAL(stripe_ms(1.2 * GB, all, 4, shares), 8.0, 1e-12);
    EXPECT_REAL(shares[0], 0.2 * GB, 1e-12);
    EXPECT_REAL(shares[3], 0.4 * GB, 1e-12);
    EXPECT_REAL(stripe_ms(1.2 * GB, two, 4, shares), 12.0, 1e-12);
    EXPECT_REAL(stripe_ms(1.2 * GB, small, 4, shares), 8.8, 1e-12);
    EXPECT_REAL(shares[0], 0.1 * GB, 0);
    EXPECT_REAL(stripe_ms(3 * GB, bound, 3, shares), 40.0, 1e-12);
}

static void test_striping_edges(void)
{
    const struct mpress_peer peers[] = { { 0, 10 * GB }, { 2, 1 * GB }, { 1, 0 } };
    double shares[3];
    struct mpress_stripes stripes = mpress_stripe(3 * GB, peers, 3, shares);
    EXPECT_REAL(stripes.placed_bytes, 1 * GB, 0); /* a peer without a link lends nothing */
    EXPECT_REAL(stripes.bytes_per_link, 0.5 * GB, 0);
    EXPECT_REAL(shares[0], 0, 0);
    EXPECT_REAL(shares[1], 1 * GB, 0);
    stripes = mpress_stripe(0, peers, 3, shares);
    EXPECT_REAL(stripes.bytes_per_link, 0, 0);
    EXPECT_REAL(shares[1], 0, 0);
    stripes = mpress_stripe(1, peers, 0, shares);
    EXPECT_REAL(stripes.placed_bytes, 0, 0);
}

/* The smallest level by halving: what the definition says and nothing else. */
static double twin_level(double bytes, const struct mpress_peer *peers, uint32_t count)
{
    double low = 0, high = bytes; /* one link is enough for `bytes` */
    for (int i = 0; i < 200; i++) {
        const double middle = 0.5 * (low + high);
        double sum = 0;
        for (uint32_t j = 0; j < count; j++) {
            sum += fmin(peers[j].spare_bytes, middle * peers[j].links);
        }
        if (sum >= bytes) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

static void test_striping_twin(void)
{
    uint64_t random = test_seed;
    uint32_t placed = 0;
    for (int i = 0; i < 20000; i++) {
        struct mpress_peer peers[7];
        double shares[7], sum = 0, room = 0;
        const uint32_t count = (uint32_t)test_below(&random, 8);
        for (uint32_t j = 0; j < count; j++) {
            peers[j].links = (uint32_t)test_below(&random, 4);
            peers[j].spare_bytes = test_below(&random, 4) == 0 ? 0 : GB * test_unit(&random);
            room += peers[j].links > 0 ? peers[j].spare_bytes : 0;
        }
        const double bytes = 3 * GB * test_unit(&random);
        const struct mpress_stripes stripes = mpress_stripe(bytes, peers, count, shares);
        for (uint32_t j = 0; j < count; j++) {
            EXPECT(shares[j] >= 0 && shares[j] <= peers[j].spare_bytes * (1 + 1e-12));
            EXPECT(peers[j].links > 0 || shares[j] == 0);
            EXPECT(shares[j] <= stripes.bytes_per_link * peers[j].links * (1 + 1e-12));
            sum += shares[j];
        }
        EXPECT(fabs(sum - stripes.placed_bytes) <= 1e-12 * bytes);
        EXPECT(fabs(stripes.placed_bytes - fmin(bytes, room)) <= 1e-12 * bytes);
        if (room > bytes * (1 + 1e-9)) {
            EXPECT_REAL(stripes.bytes_per_link, twin_level(bytes, peers, count), 1e-9);
            placed++;
        }
    }
    EXPECT(placed > 1000);
}

/* A.7: P_s = 8 + 4 (8 - s) GB against 26 GB. */
static const double OVER[8] = { 14e9, 10e9, 6e9, 2e9, 0, 0, 0, 0 };
static const double SPARE[8] = { 0, 0, 0, 0, 2e9, 6e9, 10e9, 14e9 };
static const struct mpress_mapping_case DGX1 = {
    .devices = 8, .links = DGX1_LINKS, .over_bytes = OVER, .spare_bytes = SPARE
};

static void test_mapping_goldens(void)
{
    const struct mpress_mapping best = mpress_mapping_search(&DGX1);
    EXPECT(best.is_best);
    EXPECT_INT(best.examined, 40320);
    EXPECT_INT(best.equals, 4);
    EXPECT_INT(best.key.unserved_bytes, 0);
    EXPECT_REAL((double)best.key.worst_bytes_per_link / LINK_BYTES_PER_S, 0.12, 1e-12);
    EXPECT_REAL((double)best.key.sum_bytes_per_link / LINK_BYTES_PER_S, 0.40, 1e-12);

    static const uint32_t IDENTITY[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, KNOWN[8] = { 2, 5, 4, 7, 3, 0, 1, 6 };
    struct mpress_mapping_key key = mpress_mapping_rate(&DGX1, IDENTITY);
    EXPECT_INT(key.unserved_bytes, 16e9);
    EXPECT_REAL((double)key.worst_bytes_per_link / LINK_BYTES_PER_S, 0.24, 1e-12);
    EXPECT_REAL((double)key.sum_bytes_per_link / LINK_BYTES_PER_S, 0.48, 1e-12);
    key = mpress_mapping_rate(&DGX1, KNOWN);
    EXPECT_INT(key.unserved_bytes, 0);
    EXPECT_REAL((double)key.sum_bytes_per_link / LINK_BYTES_PER_S, 0.40, 1e-12);
    EXPECT_INT(DGX1_LINKS[KNOWN[0] * 8 + KNOWN[1]], 0); /* the price: these neighbours talk through PCIe */
    EXPECT_INT(DGX1_LINKS[KNOWN[6] * 8 + KNOWN[7]], 0);
}

static void test_mapping_same_twice(void)
{
    const struct mpress_mapping a = mpress_mapping_search(&DGX1), b = mpress_mapping_search(&DGX1);
    for (uint32_t s = 0; s < 8; s++) {
        EXPECT_INT(a.device_of_stage[s], b.device_of_stage[s]);
    }
}

static void test_mapping_uniform(void)
{
    uint32_t links[16 * 16];
    double over[16] = { 5e9 }, spare[16] = { 0 };
    for (uint32_t i = 0; i < 16 * 16; i++) {
        links[i] = 6;
    }
    spare[15] = 8e9;
    const struct mpress_mapping_case input = {
        .devices = 16, .links = links, .over_bytes = over, .spare_bytes = spare
    };
    const struct mpress_mapping best = mpress_mapping_search(&input);
    EXPECT(best.is_best);
    EXPECT_INT(best.examined, 1);
    EXPECT_INT(best.key.unserved_bytes, 0);
    for (uint32_t s = 0; s < 16; s++) {
        EXPECT_INT(best.device_of_stage[s], s);
    }
}

/* Reserved bytes, worst and sum in bytes a link for one mapping, by the level found by halving. */
static void twin_rate(const struct mpress_mapping_case *input, const uint32_t *mapping, double *figures)
{
    double spare[8];
    bool done[8] = { false };
    figures[0] = figures[1] = figures[2] = 0;
    for (uint32_t s = 0; s < input->devices; s++) {
        spare[mapping[s]] = input->spare_bytes[s];
    }
    for (uint32_t turn = 0; turn < input->devices; turn++) {
        uint32_t stage = 8;
        for (uint32_t s = 0; s < input->devices; s++) {
            if (!done[s] && (stage == 8 || input->over_bytes[s] > input->over_bytes[stage])) {
                stage = s;
            }
        }
        done[stage] = true;
        struct mpress_peer peers[8];
        double room = 0;
        for (uint32_t g = 0; g < input->devices; g++) {
            const uint32_t links = input->links[mapping[stage] * input->devices + g];
            peers[g] = (struct mpress_peer){ .links = links, .spare_bytes = links == 0 ? 0 : spare[g] };
            room += peers[g].spare_bytes;
        }
        const double take = fmin(room, input->over_bytes[stage]);
        const double level = twin_level(take, peers, input->devices);
        for (uint32_t g = 0; g < input->devices; g++) {
            spare[g] -= fmin(peers[g].spare_bytes, level * peers[g].links);
        }
        figures[0] += input->over_bytes[stage] - take;
        figures[1] = fmax(figures[1], level);
        figures[2] += level;
    }
}

/* In the order of the rule, all four figures. */
static bool is_better(const struct mpress_mapping_key *a, const struct mpress_mapping_key *b)
{
    const bool same_bytes = a->unserved_bytes == b->unserved_bytes;
    const bool same_worst = same_bytes && a->worst_bytes_per_link == b->worst_bytes_per_link;
    const bool same_sum = same_worst && a->sum_bytes_per_link == b->sum_bytes_per_link;
    return a->unserved_bytes < b->unserved_bytes || (same_bytes && a->worst_bytes_per_link < b->worst_bytes_per_link) ||
           (same_worst && a->sum_bytes_per_link < b->sum_bytes_per_link) ||
           (same_sum && a->consecutive_links > b->consecutive_links);
}

/* Random links, needs and room; every mapping against the twin, and none may beat the answer. */
static void test_mapping_twin(void)
{
    uint64_t random = test_seed;
    for (int i = 0; i < 60; i++) {
        uint32_t links[25], mapping[5];
        double over[5] = { 0 }, spare[5] = { 0 };
        for (uint32_t a = 0; a < 5; a++) {
            links[a * 5 + a] = 0;
            for (uint32_t b = 0; b < a; b++) {
                links[a * 5 + b] = links[b * 5 + a] = (uint32_t)test_below(&random, 3);
            }
            *(test_below(&random, 2) == 0 ? &over[a] : &spare[a]) = (double)test_below(&random, 1000000000);
        }
        const struct mpress_mapping_case input = {
            .devices = 5, .links = links, .over_bytes = over, .spare_bytes = spare
        };
        const struct mpress_mapping best = mpress_mapping_search(&input);
        for (uint32_t code = 0; code < 3125; code++) {
            uint32_t seen = 0;
            for (uint32_t s = 0, rest = code; s < 5; s++, rest /= 5) {
                mapping[s] = rest % 5;
                seen |= 1u << mapping[s];
            }
            if (seen != 31) {
                continue;
            }
            double figures[3];
            twin_rate(&input, mapping, figures);
            const struct mpress_mapping_key key = mpress_mapping_rate(&input, mapping);
            EXPECT(fabs((double)key.unserved_bytes - figures[0]) <= 1);
            EXPECT(fabs((double)key.worst_bytes_per_link - figures[1]) <= 1);
            EXPECT(fabs((double)key.sum_bytes_per_link - figures[2]) <= 1);
            EXPECT(!is_better(&key, &best.key));
        }
    }
}

TEST_MAIN(TEST(test_striping_goldens), TEST(test_striping_edges), TEST(test_striping_twin), TEST(test_mapping_goldens),
          TEST(test_mapping_same_twice), TEST(test_mapping_uniform), TEST(test_mapping_twin))
