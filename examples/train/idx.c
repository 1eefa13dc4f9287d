/* idx.c: reads IDX files that are compressed with gzip. An IDX file has a big-endian header (a magic number with type
 * and number of dimensions, then the dimensions), followed by the bytes of the items. */
#include "idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, COUNT_MAX = 1 << 20 };

struct reader {
  char path[512];
  gzFile file;
  char *why;
  size_t why_bytes;
};

static int reader_take(struct reader *r, void *data, uint32_t bytes) {
  int got = gzread(r->file, data, bytes);
  if (got >= 0 && (uint32_t)got == bytes) return 0;
  int code;
  const char *text = gzerror(r->file, &code);
  snprintf(r->why, r->why_bytes,
           "%s: expected %u more bytes, found %d%s%s; reinstall the package dataset-fashion-mnist", r->path, bytes, got,
           code == Z_OK ? "" : ": ", code == Z_OK ? "" : text);
  return -1;
}

/* Opens a file and reads its header. Returns the number of items, or 0 with an error message in r->why. */
static uint32_t reader_open(struct reader *r, const char *folder, const char *prefix, uint32_t magic) {
  const char *suffix = magic == MAGIC_IMAGES ? "images-idx3-ubyte.gz" : "labels-idx1-ubyte.gz";
  snprintf(r->path, sizeof r->path, "%s/%s-%s", folder, prefix, suffix);
  r->file = gzopen(r->path, "rb");
  if (!r->file) {
    snprintf(r->why, r->why_bytes,
             "%s: cannot open the file; run apt-get install dataset-fashion-mnist, or use --data FOLDER", r->path);
    return 0;
  }
  gzbuffer(r->file, 1 << 17);
  const uint32_t expected[4] = {magic, 0, 28, 28};
  uint32_t dimensions = magic & 0xff, count = 0;
  for (uint32_t i = 0; i <= dimensions; i++) {
    uint8_t b[4];
    if (reader_take(r, b, sizeof b)) return 0;
    uint32_t value = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    if (i == 1) count = value;
    else if (value != expected[i]) {
      snprintf(r->why, r->why_bytes, "%s: not a Fashion-MNIST file: header word %u: expected %u, found %u", r->path, i,
               expected[i], value);
      return 0;
    }
  }
  if (count > 0 && count <= COUNT_MAX) return count;
  snprintf(r->why, r->why_bytes, "%s: expected 1 to %d items, found %u", r->path, COUNT_MAX, count);
  return 0;
}

/* Reads a whole file, whose items have item_bytes bytes each. Returns the data, or NULL with an error message. */
static uint8_t *file_read(const char *folder, const char *prefix, uint32_t magic, uint32_t item_bytes, uint32_t *count,
                          char *why, size_t why_bytes) {
  struct reader r = {.why = why, .why_bytes = why_bytes};
  uint8_t *data = NULL;
  *count = reader_open(&r, folder, prefix, magic);
  if (!*count) goto done;
  data = malloc((size_t)*count * item_bytes);
  if (!data) {
    snprintf(why, why_bytes, "%s: out of memory: cannot allocate %u items of %u bytes", r.path, *count, item_bytes);
    goto done;
  }
  if (reader_take(&r, data, *count * item_bytes)) {
    free(data);
    data = NULL;
  }
done:
  if (r.file) gzclose(r.file);
  return data;
}

int images_read(const char *folder, const char *prefix, struct images *images, char *why, size_t why_bytes) {
  uint32_t label_count = 0;
  *images = (struct images){0};
  images->pixels = file_read(folder, prefix, MAGIC_IMAGES, IMAGE_PIXELS, &images->count, why, why_bytes);
  if (!images->pixels) return -1;
  images->labels = file_read(folder, prefix, MAGIC_LABELS, 1, &label_count, why, why_bytes);
  if (!images->labels) goto failed;
  if (label_count != images->count) {
    snprintf(why, why_bytes, "%s/%s: %u images, but %u labels", folder, prefix, images->count, label_count);
    goto failed;
  }
  for (uint32_t i = 0; i < label_count; i++) {
    if (images->labels[i] < CLASSES) continue;
    snprintf(why, why_bytes, "%s/%s: label %u: expected a value below %d, found %u", folder, prefix, i, CLASSES,
             images->labels[i]);
    goto failed;
  }
  return 0;
failed:
  images_free(images);
  return -1;
}

void images_free(struct images *images) {
  free(images->pixels);
  free(images->labels);
  *images = (struct images){0};
}
