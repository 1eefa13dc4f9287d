/* host_list_test.c: tests the reader of lists and files of hosts, and where it places ranks. */
#include "boot/host_list.h"
#include "test.h"

/* Writes the hosts as "name=slots ...". */
static void show(const struct tu_host_list *list, char *text, size_t bytes) {
  text[0] = '\0';
  for (uint32_t i = 0; i < list->count; i++) {
    const size_t length = strlen(text);
    (void)snprintf(text + length, bytes - length, "%s%.99s=%u", i ? " " : "", list->hosts[i].name,
                   list->hosts[i].slots);
  }
}

static tutti_err read_text(bool file, const char *text, struct tu_host_list *list, struct tu_error *error) {
  return (file ? tu_host_list_read_file : tu_host_list_read)(text, strlen(text), file ? "my.hosts" : "--hosts", list,
                                                             error);
}

static void test_reads(void) {
  static const struct {
    bool file;
    const char *text, *hosts;
  } good[] = {
      {false, "a", "a=1"},
      {false, "a:2,b:3", "a=2 b=3"},
      {false, " a:2 , b ", "a=2 b=1"},
      {false, "a,b:2,a:4", "a=5 b=2"},
      {false, "me@a:2,a", "me@a=2 a=1"},
      {false, "[fe80::1]:4,me@[::1],[fe80::2%eth0]:2", "fe80::1=4 me@::1=1 fe80::2%eth0=2"},
      {false, "10.0.0.1:65536", "10.0.0.1=65536"},
      {false, "node-1.example.org", "node-1.example.org=1"},
      {true, "a\nb slots=3\nc:2\n", "a=1 b=3 c=2"},
      {true, "# all\n\n  a\tslots=2 # two\r\n[::1] slots=2\nme@b # slots=9\na", "a=3 ::1=2 me@b=1"},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct tu_host_list list;
    struct tu_error error = {0};
    char text[256] = "";
    const tutti_err err = read_text(good[i].file, good[i].text, &list, &error);
    CHECK(err == TUTTI_OK, "'%s' is refused: %s", good[i].text, error.text);
    show(&list, text, sizeof text);
    CHECK(strcmp(text, good[i].hosts) == 0, "'%s': read as '%s', expected '%s'", good[i].text, text, good[i].hosts);
    tu_host_list_fini(&list);
  }
}

static void test_refuses(void) {
  static const struct {
    bool file;
    const char *text, *facts;
  } bad[] = {
      {false, "", "--hosts, host 1|HOST:SLOTS|''"},
      {false, "a,,b", "--hosts, host 2|HOST:SLOTS|''"},
      {false, "a,", "--hosts, host 2|HOST:SLOTS|''"},
      {false, "a:0", "--hosts, host 1|from 1 to 65536|'a:0'"},
      {false, "a:", "from 1 to 65536|'a:'"},
      {false, "a:x", "from 1 to 65536|'a:x'"},
      {false, "a:-1", "from 1 to 65536|'a:-1'"},
      {false, "a:65537", "from 1 to 65536|'a:65537'"},
      {false, "a:1:2", "from 1 to 65536|'a:1:2'"},
      {false, "a:65536,b", "--hosts, host 2|65536 slots|'b'"},
      {false, "-oProxyCommand=x", "HOST:SLOTS|'-oProxyCommand=x'"},
      {false, "a,me@-x", "host 2|'me@-x'"},
      {false, "-me@x", "HOST:SLOTS|'-me@x'"},
      {false, "@x", "HOST:SLOTS|'@x'"},
      {false, "a b", "HOST:SLOTS|'a b'"},
      {false, "a;b", "HOST:SLOTS|'a;b'"},
      {false, "$(a)", "HOST:SLOTS|'$(a)'"},
      {false, "a\nb", "HOST:SLOTS|'a?b'"},
      {false, "fe80::1", "brackets|'fe80::1'"},
      {false, "[fe80::1", "brackets|'[fe80::1'"},
      {false, "[a]:2", "IPv6 address|'[a]:2'"},
      {false, "[::1]2", "from 1 to 65536|'[::1]2'"},
      {false, "[::1%-x]", "IPv6 address"},
      {true, "", "my.hosts: |a host per line|none"},
      {true, "# only a comment\n", "my.hosts: |a host per line"},
      {true, "a\nb slots=0\n", "my.hosts:2|slots=N|'slots=0'"},
      {true, "a\n\nb slots=\n", "my.hosts:3|slots=N|'slots='"},
      {true, "a max_slots=2", "my.hosts:1|slots=N|'max_slots=2'"},
      {true, "a slots=2 more", "my.hosts:1|slots=N|'slots=2 more'"},
      {true, "a:2 slots=2", "my.hosts:1|once|'a:2'"},
      {true, "a,b", "my.hosts:1|HOST:SLOTS|'a,b'"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct tu_host_list list;
    struct tu_error error = {0};
    const tutti_err err = read_text(bad[i].file, bad[i].text, &list, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT, "'%s' is accepted", bad[i].text);
    CHECK(test_contains(error.text, bad[i].facts), "'%s': '%s', expected %s", bad[i].text, error.text, bad[i].facts);
    tu_host_list_fini(&list);
  }
}

/* The limits on names and hosts; a NUL is no end of the text. */
static void test_limits(void) {
  struct tu_host_list list;
  struct tu_error error;
  char name[300];
  memset(name, 'x', sizeof name);
  CHECK(tu_host_list_read(name, 255, "list", &list, &error) == TUTTI_OK, "255 characters: %s", error.text);
  tu_host_list_fini(&list);
  CHECK(tu_host_list_read(name, 256, "list", &list, &error) != TUTTI_OK, "256 characters are accepted");
  CHECK(test_contains(error.text, "255 characters"), "%s", error.text);
  tu_host_list_fini(&list);
  CHECK(tu_host_list_read("a\0b", 3, "list", &list, &error) != TUTTI_OK, "a NUL is accepted");
  tu_host_list_fini(&list);
  static char many[(TU_HOSTS_MAX + 1) * 8];
  size_t length = 0;
  for (int i = 0; i <= TU_HOSTS_MAX; i++) length += (size_t)sprintf(many + length, "h%d\n", i);
  CHECK(tu_host_list_read_file(many, length, "file", &list, &error) != TUTTI_OK, "4097 hosts are accepted");
  CHECK(test_contains(error.text, "file:4097|4096 hosts|'h4096'"), "%s", error.text);
  tu_host_list_fini(&list);
}

static void test_places(void) {
  static const struct {
    const char *hosts;
    uint32_t ranks;
    bool by_host;
    const char *placed;
  } cases[] = {
      {"a:2,b:2", 4, false, "0011"},    {"a:2,b:2", 3, false, "001"},      {"a:2,b:2", 4, true, "0101"},
      {"a:3,b,c:2", 6, true, "012020"}, {"a:3,b,c:2", 6, false, "000122"}, {"a:3,b,c:2", 1, true, "0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_host_list list;
    struct tu_error error;
    uint32_t host_of[8];
    char placed[9] = "";
    CHECK(read_text(false, cases[i].hosts, &list, &error) == TUTTI_OK, "%s", error.text);
    tu_host_list_place(&list, cases[i].ranks, cases[i].by_host, host_of);
    for (uint32_t r = 0; r < cases[i].ranks; r++) placed[r] = (char)('0' + host_of[r]);
    CHECK(strcmp(placed, cases[i].placed) == 0, "%s, %u ranks%s: '%s', expected '%s'", cases[i].hosts, cases[i].ranks,
          cases[i].by_host ? ", by host" : "", placed, cases[i].placed);
    tu_host_list_fini(&list);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"reads", test_reads},
      {"refuses", test_refuses},
      {"limits", test_limits},
      {"places", test_places},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
