/* The allowed range of each number of a model description, in one place: both loaders quote these in their messages.
 * Chosen so that no product of the
 * counts can overflow 63 bits: 2^20 x (2^20 + 3 x 2^24) x 10^4 < 2^60. */
#ifndef MEMWALL_MODEL_MODEL_RANGES_H
#define MEMWALL_MODEL_MODEL_RANGES_H

enum {
    MODEL_LAYERS_MAX = 10000,
    MODEL_HIDDEN_MAX = 1 << 20,
    MODEL_HEADS_MAX = 1 << 16,
    MODEL_HEAD_SIZE_MAX = 1 << 16,
    MODEL_FFN_MAX = 1 << 24,
    MODEL_VOCAB_MAX = 1 << 24,
    MODEL_SEQUENCE_MAX = 1 << 24,
    MODEL_SEGMENTS_MAX = 1 << 10,
    MODEL_CLASSES_MAX = 1 << 24,
    MODEL_IMAGE_MAX = 4096,
    MODEL_CHANNELS_MAX = 1024
};

#endif
