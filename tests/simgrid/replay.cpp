/* replay.cpp: simulates graphs in the format tutti-graph(5) with SimGrid, which computes all times.
 *
 *   replay [--fair | --stored] FILE...      prints one line per file: FILE SECONDS MOST
 *
 * MOST is the largest number of messages on one link at a time; 1 means that no two messages ever shared a link. The
 * network model is CM02 with unit factors. In this model, a flow through a full link gets less bandwidth if its route
 * has a longer latency. With --fair, the latency is a delay before the flow instead, so that all flows get equal
 * shares. With --stored, a message goes link by link, and crosses a link completely before it enters the next. */
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

/* SimGrid counts whole bytes, but plans may cut bytes; millionths of a byte are exact enough. */
constexpr double kByte = 1e6;
constexpr double kFlops = 1e9;
enum class Way { native, fair, stored };

struct Pipe {
  double bandwidth, latency;
  unsigned taken;
  sg4::Link *link;
};

struct Node {
  enum Kind { none, step, delay, reduce, message } kind;
  unsigned rank, to;
  double amount;              /* seconds; of a message: bytes */
  std::vector<unsigned> over; /* numbers of links */
  std::vector<unsigned> then, behind;
  unsigned waits;
};

struct Graph {
  std::map<unsigned, Pipe> pipes;
  std::vector<Node> nodes;
};

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "replay: %s\n", what.c_str());
  std::_Exit(1);
}

/* ---- reading ---- */

Node &node_at(Graph &graph, unsigned number) {
  if (number > 50000000) fail("a node's number is too large");
  if (number >= graph.nodes.size()) graph.nodes.resize(number + 1, Node{});
  return graph.nodes[number];
}

void read_line(Graph &graph, const std::string &word, std::istringstream &line) {
  unsigned number = 0, other;
  if (!(line >> number)) fail("expected a number after " + word);
  if (word == "link") {
    Pipe pipe{};
    if (!(line >> pipe.bandwidth >> pipe.latency)) fail("link: expected NUMBER BANDWIDTH LATENCY");
    graph.pipes[number] = pipe;
    return;
  }
  Node &node = node_at(graph, number);
  if (word == "then" || word == "behind") {
    std::vector<unsigned> others;
    while (line >> other) others.push_back(other);
    for (unsigned o : others) node_at(graph, o).waits++;
    Node &same = graph.nodes[number]; /* node_at may have moved the node */
    auto &list = word == "then" ? same.then : same.behind;
    list.insert(list.end(), others.begin(), others.end());
    return;
  }
  if (node.kind != Node::none) fail("a node is defined twice");
  if (word == "step") {
    node.kind = Node::step;
  } else if (word == "delay" && line >> node.amount) {
    node.kind = Node::delay;
  } else if (word == "reduce" && line >> node.rank >> node.amount) {
    node.kind = Node::reduce;
  } else if (word == "message" && line >> node.rank >> node.to >> node.amount) {
    node.kind = Node::message;
    while (line >> other) node.over.push_back(other);
    for (unsigned o : node.over)
      if (graph.pipes.count(o) == 0) fail("a message uses an unknown link");
    if (node.over.empty()) fail("a message has no links");
  } else {
    fail("expected link, message, reduce, delay, step, then or behind, found " + word);
  }
}

Graph read_graph(const char *path) {
  Graph graph;
  std::ifstream file(path);
  std::string text, word;
  if (!std::getline(file, text) || text != "graph 1")
    fail(std::string(path) + ": expected a file that begins with graph 1");
  while (std::getline(file, text)) {
    std::istringstream line(text);
    if (line >> word) read_line(graph, word, line);
  }
  for (const Node &node : graph.nodes)
    if (node.kind == Node::none && node.waits > 0) fail("a node precedes an unknown node");
  return graph;
}

/* ---- the platform ---- */

struct World {
  Graph graph;
  Way way;
  sg4::NetZone *zone;
  sg4::Host *clock; /* host with a core for each delay */
  std::map<std::string, sg4::Host *> hosts;
};

sg4::Host *host(World &world, const std::string &name) {
  auto &h = world.hosts[name];
  if (!h) h = world.zone->create_host(name, kFlops);
  return h;
}

std::string rank_name(unsigned rank) { return "rank" + std::to_string(rank); }
std::string end_name(unsigned link, const char *end) { return "link" + std::to_string(link) + end; }

void add_route(World &world, sg4::Host *from, sg4::Host *to, const std::vector<unsigned> &over) {
  std::vector<sg4::LinkInRoute> links;
  for (unsigned o : over) links.emplace_back(world.graph.pipes[o].link);
  world.zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, links, false);
}

void build_platform(World &world) {
  world.zone = sg4::create_full_zone("all");
  world.clock = host(world, "clock")->set_core_count(1 << 20);
  for (auto &[number, pipe] : world.graph.pipes)
    pipe.link = world.zone->create_link("l" + std::to_string(number), pipe.bandwidth * kByte)
                    ->set_latency(world.way == Way::fair ? 0 : pipe.latency)
                    ->seal();
  std::map<std::pair<unsigned, unsigned>, std::vector<unsigned>> routes;
  for (const Node &node : world.graph.nodes) {
    if (node.kind == Node::message) {
      const auto [at, is_new] = routes.insert({{node.rank, node.to}, node.over});
      if (is_new && world.way != Way::stored)
        add_route(world, host(world, rank_name(node.rank)), host(world, rank_name(node.to)), node.over);
      if (at->second != node.over)
        fail("two messages between the same ranks take different routes, which SimGrid does not support");
    }
    if (node.kind == Node::reduce) host(world, rank_name(node.rank));
  }
  for (auto &[number, pipe] : world.graph.pipes)
    if (world.way == Way::stored)
      add_route(world, host(world, end_name(number, "a")), host(world, end_name(number, "b")), {number});
  world.zone->seal();
}

/* ---- the simulation: one actor starts nodes that are ready, and waits for activities that end ---- */

struct Running {
  unsigned node;
  size_t part; /* of a message: with --fair, 0 is the delay and 1 the flow; with --stored, index of the current link */
};

struct Play {
  World &world;
  std::vector<sg4::ActivityPtr> running;
  std::vector<Running> what; /* nodes of `running`, in the same order */
  std::map<unsigned, std::set<unsigned>>
      ready; /* per rank: reductions that have become ready and are not queued, sorted by number */
  std::map<unsigned, std::deque<unsigned>> queue;
  std::set<unsigned> busy;
  size_t ended = 0;
  unsigned most = 0;
};

void run_delay(Play &play, Running what, sg4::Host *where, double seconds) {
  play.running.push_back(sg4::Exec::init()->set_flops_amount(seconds * kFlops)->set_host(where)->start());
  play.what.push_back(what);
}

void take(Play &play, unsigned link) { play.most = std::max(play.most, ++play.world.graph.pipes[link].taken); }

/* Starts the next part of a message; returns false if there is none. */
bool run_part(Play &play, Running what) {
  World &world = play.world;
  const Node &node = world.graph.nodes[what.node];
  size_t parts = world.way == Way::native ? 1 : world.way == Way::fair ? 2 : node.over.size();
  if (what.part == parts) return false;
  if (what.part == 0 && world.way != Way::stored)
    for (unsigned o : node.over) take(play, o);
  if (world.way == Way::fair && what.part == 0) {
    double latency = 0;
    for (unsigned o : node.over) latency += world.graph.pipes[o].latency;
    run_delay(play, what, world.clock, latency);
    return true;
  }
  sg4::Host *from, *to;
  if (world.way == Way::stored) {
    unsigned link = node.over[what.part];
    take(play, link);
    from = host(world, end_name(link, "a"));
    to = host(world, end_name(link, "b"));
  } else {
    from = host(world, rank_name(node.rank));
    to = host(world, rank_name(node.to));
  }
  play.running.push_back(sg4::Comm::sendto_init(from, to)
                             ->set_payload_size(static_cast<uint64_t>(std::llround(node.amount * kByte)))
                             ->start());
  play.what.push_back(what);
  return true;
}

/* Removes an ended part from its links, before parts that start at the same time enter them. */
void leave_links(World &world, Running what) {
  const Node &node = world.graph.nodes[what.node];
  if (node.kind != Node::message) return;
  if (world.way == Way::stored) world.graph.pipes[node.over[what.part]].taken--;
  else if (world.way == Way::native || what.part == 1)
    for (unsigned o : node.over) world.graph.pipes[o].taken--;
}

void less_waits(Play &play, unsigned number);

void end_node(Play &play, unsigned number) {
  play.ended++;
  for (unsigned next : play.world.graph.nodes[number].then) less_waits(play, next);
}

void start_node(Play &play, unsigned number) {
  const Node &node = play.world.graph.nodes[number];
  if (node.kind == Node::reduce) play.ready[node.rank].insert(number);
  else if (node.kind == Node::delay) run_delay(play, {number, 0}, play.world.clock, node.amount);
  else if (node.kind == Node::message) run_part(play, {number, 0});
  for (unsigned next : node.behind) less_waits(play, next);
  if (node.kind == Node::step) end_node(play, number);
}

void less_waits(Play &play, unsigned number) {
  if (--play.world.graph.nodes[number].waits == 0) start_node(play, number);
}

/* A rank runs one reduction at a time, in the order in which they became ready; at equal times, by number. */
void start_reductions(Play &play) {
  for (auto &[rank, numbers] : play.ready) {
    auto &queue = play.queue[rank];
    queue.insert(queue.end(), numbers.begin(), numbers.end());
    numbers.clear();
    if (queue.empty() || !play.busy.insert(rank).second) continue;
    run_delay(play, {queue.front(), 0}, host(play.world, rank_name(rank)),
              play.world.graph.nodes[queue.front()].amount);
    queue.pop_front();
  }
}

void end_activity(Play &play, Running what) {
  const Node &node = play.world.graph.nodes[what.node];
  if (node.kind == Node::message && run_part(play, {what.node, what.part + 1})) return;
  if (node.kind == Node::reduce) play.busy.erase(node.rank);
  end_node(play, what.node);
}

void act(Play &play) {
  std::vector<unsigned> first;
  size_t count = 0;
  for (unsigned i = 0; i < play.world.graph.nodes.size(); i++) {
    const Node &node = play.world.graph.nodes[i];
    count += node.kind != Node::none;
    if (node.kind != Node::none && node.waits == 0) first.push_back(i);
  }
  for (unsigned number : first) start_node(play, number);
  start_reductions(play);
  while (!play.running.empty()) {
    sg4::Activity::wait_any(play.running);
    std::vector<Running> done;
    for (size_t i = 0; i < play.running.size();) { /* all activities that ended at this time */
      if (!play.running[i]->test()) {
        i++;
        continue;
      }
      done.push_back(play.what[i]);
      play.running[i] = play.running.back();
      play.running.pop_back();
      play.what[i] = play.what.back();
      play.what.pop_back();
    }
    for (Running what : done) leave_links(play.world, what);
    for (Running what : done) end_activity(play, what);
    start_reductions(play);
  }
  if (play.ended != count) fail("some nodes never started: the graph has a cycle");
}

void replay(const char *path, Way way) {
  int argc = 2;
  char name[] = "replay", quiet[] = "--log=root.thresh:warning", *arguments[] = {name, quiet, nullptr},
       **argv = arguments;
  sg4::Engine engine(&argc, argv);
  /* Full: with lazy updates, SimGrid 3.32 does not reduce the rate of a flow when other flows enter its link, which
   * then carries more than its bandwidth (allreduce.line on hosts:1x8 with 1 MiB). */
  for (const char *setting : {"network/model:CM02", "network/optim:Full", "network/latency-factor:1",
                              "network/bandwidth-factor:1", "network/weight-S:0", "network/crosstraffic:0",
                              "network/TCP-gamma:0", "surf/precision:1e-12", "maxmin/precision:1e-9"})
    sg4::Engine::set_config(setting);
  World world{read_graph(path), way, nullptr, nullptr, {}};
  build_platform(world);
  Play play{world, {}, {}, {}, {}, {}};
  sg4::Actor::create("play", world.clock, [&play] { act(play); });
  engine.run();
  std::printf("%s %.17g %u\n", path, sg4::Engine::get_clock(), play.most);
  std::fflush(stdout);
}

} /* namespace */

/* Each file is simulated in its own process, as a SimGrid engine can have one platform, and a process one engine. */
int main(int argc, char **argv) {
  Way way = Way::native;
  int first = 1, failed = 0;
  if (argc > 1 && std::strcmp(argv[1], "--fair") == 0) way = Way::fair;
  if (argc > 1 && std::strcmp(argv[1], "--stored") == 0) way = Way::stored;
  if (way != Way::native) first = 2;
  for (int i = first; i < argc; i++) {
    pid_t child = fork();
    if (child < 0) fail("cannot fork");
    if (child == 0) {
      replay(argv[i], way);
      std::_Exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "replay: %s failed\n", argv[i]);
      failed = 1;
    }
  }
  return failed;
}
