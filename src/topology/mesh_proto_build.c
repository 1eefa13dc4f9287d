/* mesh_proto_build.c: makes the chips and links of the top template of a descriptor. Chips are numbered instance by
 * instance, in the order of the file, and row by row within a mesh. Channels of a chip are numbered as in generated
 * grids: those along the last dimension come first. Within a dimension, those to the lower neighbour come first. Links
 * that do not belong to the grid of a mesh use the channels behind these. */
#include <stdlib.h>
#include <string.h>

#include "topology/mesh_proto.h"

/* An instance (of a template) whose chips and links have still to be created. */
struct instance {
  uint32_t of, first, id;
};

struct building {
  const struct tu_mesh_proto *proto;
  uint32_t *next; /* [chips]: lowest channel number of each chip that is still free */
  struct instance *stack;
  uint32_t count, capacity;
  struct instance *made; /* all instances created so far; a template's instance stands before the instances inside it */
  uint32_t made_count, made_capacity;
};

static void push(struct building *b, struct instance instance) {
  b->stack = tu_arena_grow(&b->proto->cluster->arena, b->stack, b->count, &b->capacity, sizeof *b->stack);
  b->stack[b->count++] = instance;
}

static tutti_err refuse_links(const struct building *b) {
  return tu_yaml_fail(b->proto->tree, b->proto->top_node, b->proto->error, "the cluster has more than 2^20 links");
}

/* Makes the links of a mesh. A descriptor lists first the dimension whose coordinate changes slowest from chip to chip;
 * struct tu_grid_links lists it last. So this function reverses the order of the dimensions. */
static tutti_err make_mesh(struct building *b, const struct tu_mesh_template *mesh, uint32_t first) {
  struct tu_cluster *c = b->proto->cluster;
  struct tu_grid_links grid = {.first = first, .dims = mesh->dims};
  if (c->link_count + (size_t)mesh->chips * mesh->dims * mesh->links > TU_LINKS_MAX) return refuse_links(b);
  for (uint32_t d = 0; d < mesh->dims; d++) {
    grid.size[d] = mesh->size[mesh->dims - 1 - d];
    grid.wraps[d] = mesh->ring[mesh->dims - 1 - d];
    grid.links[d] = mesh->links;
    for (uint32_t way = 0; way < 2; way++) grid.channel[2 * d + way] = (2 * d + way) * mesh->links;
  }
  uint32_t before = c->link_count;
  tu_connect_grid(c, &grid);
  for (uint32_t l = before; l < c->link_count; l++) c->links[l].relaxed = mesh->relaxed;
  for (uint32_t i = 0; i < mesh->chips; i++) b->next[first + i] = 2 * mesh->dims * mesh->links;
  return TUTTI_OK;
}

static tutti_err make_joints(struct building *b, const struct tu_mesh_template *of, uint32_t first) {
  for (uint32_t j = 0; j < of->joint_count; j++) {
    struct tu_joint joint = b->proto->joints[of->joint_first + j];
    uint32_t chip;
    if (b->proto->cluster->link_count + (size_t)joint.links > TU_LINKS_MAX) return refuse_links(b);
    for (int e = 0; e < 2; e++) joint.first[e] += first;
    if (!tu_connect_joint(b->proto->cluster, &joint, b->next, &chip))
      return tu_fail(b->proto->error, TUTTI_ERR_ARGUMENT,
                     "%s:%u: expected no more than %d links at a chip, found more at chip %u", b->proto->tree->name,
                     b->proto->tree->nodes[of->node].line, (int)TU_CHANNELS_MAX, chip);
  }
  return TUTTI_OK;
}

/* Makes the links of all meshes. This comes before all joints (additional links), because joints use the channels after
 * those of the meshes. */
static tutti_err make_meshes(struct building *b) {
  const struct tu_mesh_proto *proto = b->proto;
  push(b, (struct instance){proto->top, 0, 0});
  while (b->count > 0) {
    struct instance here = b->stack[--b->count];
    const struct tu_mesh_template *t = &proto->templates[here.of];
    b->made = tu_arena_grow(&b->proto->cluster->arena, b->made, b->made_count, &b->made_capacity, sizeof *b->made);
    b->made[b->made_count++] = here;
    for (uint32_t m = t->member_count; m-- > 0;) {
      const struct tu_mesh_member *member = &proto->members[t->member_first + m];
      push(b, (struct instance){member->of, here.first + member->first, member->id});
    }
    tutti_err err = t->graph ? TUTTI_OK : make_mesh(b, t, here.first);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* Adds the chips. The chips get positions only if the top template is a single mesh. */
static void add_chips(const struct tu_mesh_proto *proto) {
  const struct tu_mesh_template *top = &proto->templates[proto->top];
  for (uint32_t i = 0; i < top->chips; i++) {
    struct tu_node chip = {.id = i, .has_coords = !top->graph};
    for (uint32_t d = 0, rest = i; d < top->dims; d++) {
      uint32_t size = top->size[top->dims - 1 - d];
      chip.coords[d] = rest % size;
      rest /= size;
    }
    memcpy(chip.arch, proto->arch, sizeof chip.arch);
    tu_cluster_add(proto->cluster, &chip);
  }
}

/* If there are several instances, adds a note (a line of text for the user) about the chips of each mesh. */
static void note_meshes(const struct building *b) {
  if (b->made_count <= 1) return;
  for (uint32_t i = 0; i < b->made_count; i++) {
    const struct tu_mesh_template *t = &b->proto->templates[b->made[i].of];
    if (!t->graph) tu_note_mesh(b->proto->cluster, b->made[i].id, b->made[i].first, t->size, t->dims);
  }
}

tutti_err tu_mesh_proto_build(const struct tu_mesh_proto *proto) {
  struct building b = {.proto = proto};
  b.next = tu_arena_allocate(&proto->cluster->arena, proto->templates[proto->top].chips, sizeof *b.next);
  add_chips(proto);
  tutti_err err = make_meshes(&b);
  for (uint32_t i = 0; i < b.made_count && err == TUTTI_OK; i++)
    err = make_joints(&b, &proto->templates[b.made[i].of], b.made[i].first);
  if (err == TUTTI_OK) {
    uint32_t clash = tu_cluster_index(proto->cluster);
    tu_assert(clash == TU_NONE);
    note_meshes(&b);
  }
  tu_arena_free(&proto->cluster->arena, b.next);
  tu_arena_free(&proto->cluster->arena, b.stack);
  tu_arena_free(&proto->cluster->arena, b.made);
  return err;
}
