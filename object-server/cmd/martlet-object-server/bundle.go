package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

const bundleUsage = `usage: martlet-object-server bundle ls [--objects | --versions] [--json] PATH...
       martlet-object-server bundle dump [SELECTION] [--json | --data FILE] FILE
       martlet-object-server bundle verify [--rate BYTES] [--json] PATH...
       martlet-object-server bundle repair [--apply] [--conf CONF] [--json] PATH
       martlet-object-server bundle damages [--json] PATH...
       martlet-object-server bundle ls | dump | verify | repair | damages --help

Reads the bundles that hold the objects. PATH is a device, the directory of a
partition on it, or a segment file (NNNNNNNN-NNNN.bundle).

  ls      lists partitions, segments, objects, versions or records
  dump    shows records with all their fields, or extracts an object's bytes
  verify  reads everything and checks every checksum
  repair  rewrites damaged segments without the damaged records
  damages lists the damage that the server has found and that still exists

All commands work while the server runs; ls, dump, verify and damages change nothing.
A running server does the repair itself, one partition after the other.

examples:
  martlet-object-server bundle ls /srv/node/d1
  martlet-object-server bundle verify /srv/node/d1
  martlet-object-server bundle repair /srv/node/d1             shows what it would do
  martlet-object-server bundle repair --apply /srv/node/d1     does it

Exit status: 0 no damage, 1 damage was found, 2 an error: the command line or a path
is wrong, or a file cannot be read.
`

const lsUsage = `usage: martlet-object-server bundle ls [--objects | --versions] [--json] PATH...

  a device       a line for each partition
  a partition    a line for each segment
  a segment      a line for each record

  --objects      of devices and partitions: a line for each object that a GET
                 would find
  --versions     the same with a line for each version of it
  --json         JSON, one object a line; a partition has its segments in it

It does not read the bytes of objects. Of a partition in use it shows the state when
it read it. It reports damage that it meets; "verify" finds all damage.

examples:
  martlet-object-server bundle ls /srv/node/d1
  martlet-object-server bundle ls /srv/node/d1/bundles/600
  martlet-object-server bundle ls --versions /srv/node/d1/bundles/600
  martlet-object-server bundle ls --objects --json /srv/node/d1 | jq -r .name
`

const dumpUsage = `usage: martlet-object-server bundle dump [SELECTION] [--json | --data FILE] SEGMENT

Shows the records of a segment file: all fields of the header, the metadata, the
other versions of the name that it lists, and whether its checksums are right.
Without a selection it shows the segment's header and every record.

  --offset N     the record at this place, in bytes
  --lsn N        the record with this number in the log
  --name /A/C/O  the newest record of this name in the file
  --hash H       the same by the hash of the name, 32 hexadecimal digits
  --json         JSON, one record a line
  --data FILE    writes the object's bytes to a new file; - is the output.
                 The bytes of a large object are in the file large/ID.data

examples:
  martlet-object-server bundle dump /srv/node/d1/bundles/600/00000001-0000.bundle
  martlet-object-server bundle dump --lsn 17 --json 00000001-0000.bundle
  martlet-object-server bundle dump --name /AUTH_test/photos/cat --data cat.jpg 00000001-0000.bundle
`

const verifyUsage = `usage: martlet-object-server bundle verify [--rate BYTES] [--json] PATH...

Reads everything and checks every checksum: headers, metadata, version blocks, the
objects' bytes, large files and their attributes. It also checks that checkpoints and
footers agree with the records. It prints one line for each damage, then a summary.

  --rate BYTES   reads at most so many bytes a second, like 50M; for a device in use
  --json         JSON: a line for each damage, then one with the figures

The server may run. A write in progress is not damage, nor is a write that a crash cut
off before it was acknowledged ("torn ends"). On a terminal it shows its progress.

examples:
  martlet-object-server bundle verify /srv/node/d1
  martlet-object-server bundle verify --rate 50M /srv/node/d1 /srv/node/d2
  martlet-object-server bundle verify --json /srv/node/d1/bundles/600

Exit status: 0 no damage, 1 damage, 2 a file could not be read.
`

const repairUsage = `usage: martlet-object-server bundle repair [--apply] [--conf CONF] [--json] PATH

Rewrites damaged segments of a device or a partition without the damaged records;
the others keep their numbers. Without --apply it only shows what it would do.
Nothing is destroyed: the damaged files go to DEVICE/quarantined.

If a server uses the device, the command asks that server, which repairs one
partition after the other. Requests to a partition wait while it is repaired, all
others go on. A lost record comes back only from a replica. If an older record of its
name is left, that one counts again until then, and the command says so. So make sure
that the partition has other replicas, or keep the files in quarantine.

  --apply        does it
  --conf CONF    the conf of the server that has the device, with its address
                 (default /etc/martlet/object-server.conf)
  --json         JSON: a line for each partition

examples:
  martlet-object-server bundle repair /srv/node/d1
  martlet-object-server bundle repair --apply /srv/node/d1/bundles/600

Exit status: 0 no damage is left, 1 damage is left, 2 the repair was not possible.
`

const damagesUsage = `usage: martlet-object-server bundle damages [--json] PATH...

Lists the damage that the object server has found on a device: when it was first
seen, where it is, the name if it is known, and the cause. Damage that was rewritten
or repaired since is not listed. Damage that no request, no opening and no repair has
met is not listed either: "verify" finds it. PATH is a device. The command changes
nothing, and the server may run.

  --json         JSON, one damage a line

examples:
  martlet-object-server bundle damages /srv/node/d1
  martlet-object-server bundle damages --json /srv/node/d1 | jq -r '.lost[]?.name'

Exit status: 0 no damage is known, 1 damage is known, 2 the list could not be read.
`

// errUsage means that the command line is wrong.
var errUsage = errors.New("usage")

// errDamage means that damage was found, and is already reported.
var errDamage = errors.New("damage")

// errTold means that a file could not be read, and the error is already reported.
var errTold = errors.New("told")

// bundleFlags are those of all bundle commands.
type bundleFlags struct {
	set    *flag.FlagSet
	json   bool
	stdout io.Writer
	stderr io.Writer
}

// runBundle runs a bundle command and returns the exit status.
func runBundle(arguments []string, stdout, stderr io.Writer) int {
	f := bundleFlags{set: flag.NewFlagSet("bundle", flag.ContinueOnError), stdout: stdout, stderr: stderr}
	f.set.SetOutput(io.Discard)
	f.set.BoolVar(&f.json, "json", false, "")
	commands := map[string]struct {
		run   func([]string) error
		usage string
	}{"ls": {f.ls, lsUsage}, "dump": {f.dump, dumpUsage}, "verify": {f.verify, verifyUsage}, "repair": {f.repair, repairUsage}, "damages": {f.damages, damagesUsage}}
	if len(arguments) == 0 {
		fmt.Fprint(stderr, bundleUsage)
		return 2
	}
	if slices.Contains([]string{"--help", "-h", "help"}, arguments[0]) {
		fmt.Fprint(stdout, bundleUsage)
		return 0
	}
	command, ok := commands[arguments[0]]
	if !ok {
		return f.status(fmt.Errorf("%w: there is no command %q", errUsage, arguments[0]), bundleUsage)
	}
	return f.status(command.run(arguments[1:]), command.usage)
}

// status reports an error, and returns the exit status for it.
func (f *bundleFlags) status(err error, usage string) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(f.stdout, usage)
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(f.stderr, "martlet-object-server bundle: %s; --help shows how\n", strings.TrimPrefix(err.Error(), "usage: "))
	case errors.Is(err, errTold):
	case errors.Is(err, errDamage):
		return 1
	default:
		f.complain(err)
	}
	return 2
}

func (f *bundleFlags) complain(err error) {
	advice := ""
	if errors.Is(err, fs.ErrPermission) {
		advice = "; run it as root, or as the user of the object server"
	}
	fmt.Fprintf(f.stderr, "martlet-object-server bundle: %v%s\n", err, advice)
}

// parse reads the flags and returns the paths.
func (f *bundleFlags) parse(arguments []string) ([]string, error) {
	err := f.set.Parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return nil, err
	}
	if err == nil && f.set.NArg() == 0 {
		err = errors.New("a path is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return f.set.Args(), nil
}

// one is parse for commands that take one path.
func (f *bundleFlags) one(arguments []string) (string, error) {
	paths, err := f.parse(arguments)
	if err == nil && len(paths) > 1 {
		err = fmt.Errorf("%w: more than one path", errUsage)
	}
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

// line writes one line of JSON.
func (f *bundleFlags) line(value any) error {
	e := json.NewEncoder(f.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
