# debian.sh: other systems of Debian in a folder, from the mirror that apt uses on this machine. Bash scripts read it with
# `. tools/debian.sh`; nothing here changes the machine's own packages.

# The keys of Debian's archive, for apt and debootstrap.
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg

# debian_indexes FORMAT: prints a line for each of apt's lists that is Debian's. apt knows that once it has the lists.
debian_indexes() {
  local turn lines
  for turn in 1 2; do
    lines=$(apt-get indextargets --format "\$(ORIGIN) $1" 'Created-By: Packages' | sed -n 's/^Debian //p' | sort -u)
    [ -z "$lines" ] || { echo "$lines" && return; }
    [ $turn = 2 ] || apt-get update -q >/dev/null 2>&1
  done
  return 1
}

# Prints the mirror of Debian in apt's configuration.
debian_mirror() {
  # shellcheck disable=SC2016 # $(...) is apt's format
  debian_indexes '$(LABEL) $(COMPONENT) $(REPO_URI)' | awk '$1 == "Debian" && $2 == "main" { print $3; found = 1; exit } END { exit !found }'
}

# debian_sources SUITE: prints lines for sources.list: the suite, and its updates if this machine has them.
debian_sources() {
  local uri
  uri=$(debian_mirror) || return
  {
    echo "$uri $1 main"
    # shellcheck disable=SC2016 # $(...) is apt's format
    debian_indexes '$(REPO_URI) $(RELEASE) $(COMPONENT)' | awk -v suite="$1-" 'index($2, suite) == 1 && $3 == "main"'
  } | sed "s|^|deb [signed-by=$debian_keys] |"
}

# debian_chroot SUITE FOLDER: makes a small system, as root.
debian_chroot() {
  local uri proxy=
  uri=$(debian_mirror) || return
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  [ -z "$proxy" ] || local -x http_proxy=$proxy
  debootstrap --variant=minbase --keyring="$debian_keys" --include=ca-certificates "$1" "$2" "$uri" || return
  debian_sources "$1" >"$2/etc/apt/sources.list"
  apt-config dump | grep '^Acquire::' >"$2/etc/apt/apt.conf.d/00machine"
}

# debian_tree SUITE ARCHITECTURE FOLDER PACKAGE...: unpacks packages and all that they depend on below FOLDER/root, without
# running a program of theirs. apt gets a configuration of its own in FOLDER.
debian_tree() {
  local suite=$1 architecture=$2 folder=$3 options package link target
  shift 3
  mkdir -p "$folder"/apt/lists/partial "$folder"/apt/cache/archives/partial "$folder"/root || return
  folder=$(realpath "$folder") # apt takes other paths as below its own
  debian_sources "$suite" >"$folder/apt/sources.list" || return
  : >"$folder/apt/status"
  options=(-q -y --no-install-recommends -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
    -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$folder/apt"
    -o "Dir::State::lists=$folder/apt/lists" -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache"
    -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  apt-get "${options[@]}" update || return
  apt-get "${options[@]}" install --download-only "$@" || return
  for package in "$folder"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$folder/root" || return; done
  # Links that begin at / would leave the folder.
  find "$folder/root" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
    ln -sfnr "$folder/root$target" "$link" || return
  done
  rm -rf "$folder/apt"
}
