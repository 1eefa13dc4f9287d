/* idx.h: reads the gzip IDX files of Fashion-MNIST: images and their labels. */
#ifndef IDX_H
#define IDX_H

#include <stddef.h>
#include <stdint.h>

enum { IMAGE_PIXELS = 28 * 28, CLASSES = 10 };

struct images {
  uint32_t count;
  uint8_t *pixels; /* [count][IMAGE_PIXELS] */
  uint8_t *labels; /* [count], < CLASSES */
};

/* Reads FOLDER/PREFIX-images-idx3-ubyte.gz and FOLDER/PREFIX-labels-idx1-ubyte.gz. Returns 0; the caller then calls
 * images_free. On failure, returns -1 with an error message in `why`; then nothing is to be freed. */
int images_read(const char *folder, const char *prefix, struct images *images, char *why, size_t why_bytes);
void images_free(struct images *images);

#endif
