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

Looks into the bundles that objects lie in. PATH is a device, the directory of a
partition on it, or a segment file (NNNNNNNN-NNNN.bundle).

  ls      lists partitions, segments, objects, versions or records
  dump    shows records with all their fields, or extracts an object's bytes
  verify  reads everything and checks every checksum
  repair  writes damaged segments anew without what is damaged
  damages lists what the server has met, and what of it is still so

All may be used while the server runs; ls, dump and verify change nothing. A server
that runs does the repair itself, one partition after the other.

examples:
  martlet-object-server bundle ls /srv/node/d1
  martlet-object-server bundle verify /srv/node/d1
  martlet-object-server bundle repair /srv/node/d1             says what it would do
  martlet-object-server bundle repair --apply /srv/node/d1     does it

Exit status: 0 all is well, 1 damage was found, 2 something went wrong: a path or
the command line, or what cannot be read at all.
`

const lsUsage = `usage: martlet-object-server bundle ls [--objects | --versions] [--json] PATH...

  a device       a line for each partition
  a partition    a line for each segment
  a segment      a line for each record

  --objects      of devices and partitions: a line for each object that a GET
                 would find
  --versions     the same with a line for each version of it
  --json         JSON, one object a line; a partition has its segments in it

The bytes of objects are not read. Of a partition in use it shows what it was when
the command read it. Damage is told where it is met, but "verify" finds all of it.

examples:
  martlet-object-server bundle ls /srv/node/d1
  martlet-object-server bundle ls /srv/node/d1/bundles/600
  martlet-object-server bundle ls --versions /srv/node/d1/bundles/600
  martlet-object-server bundle ls --objects --json /srv/node/d1 | jq -r .name
`

const dumpUsage = `usage: martlet-object-server bundle dump [SELECTION] [--json | --data FILE] SEGMENT

Shows the records of a segment file: all fields of the header, the metadata, what
the record says of other versions of its name, and whether its checksums hold.
Without a selection it shows the segment's header and every record.

  --offset N     the record at this place, in bytes
  --lsn N        the record with this number in the log
  --name /A/C/O  the newest record of this name in the file
  --hash H       the same by the hash of the name, 32 hexadecimal digits
  --json         JSON, one record a line
  --data FILE    writes the object's bytes to a new file; - is the output.
                 The bytes of a large object are in large/ID.data already

examples:
  martlet-object-server bundle dump /srv/node/d1/bundles/600/00000001-0000.bundle
  martlet-object-server bundle dump --lsn 17 --json 00000001-0000.bundle
  martlet-object-server bundle dump --name /AUTH_test/photos/cat --data cat.jpg 00000001-0000.bundle
`

const verifyUsage = `usage: martlet-object-server bundle verify [--rate BYTES] [--json] PATH...

Reads all of it and checks every checksum: headers, metadata, version blocks, the
objects' bytes, checkpoints and footers and whether they agree with the records,
large files and their attributes. One line for each damage, then a summary.

  --rate BYTES   reads at most so much a second, like 50M; for a device in use
  --json         JSON: a line for each damage, then one with the figures

The server may run. What it is just writing is not damage, nor is what a crash cut
off before it was acknowledged ("torn ends"). On a terminal it shows how far it is.

examples:
  martlet-object-server bundle verify /srv/node/d1
  martlet-object-server bundle verify --rate 50M /srv/node/d1 /srv/node/d2
  martlet-object-server bundle verify --json /srv/node/d1/bundles/600

Exit status: 0 no damage, 1 damage, 2 something could not be read at all.
`

const repairUsage = `usage: martlet-object-server bundle repair [--apply] [--conf CONF] [--json] PATH

Writes damaged segments of a device or a partition anew without the records that
are damaged; the others keep their numbers. Without --apply it only says what it
would do. Nothing is destroyed: the damaged files go to DEVICE/quarantined.

Where a server has the device, the command asks that server, which does it with one
partition after the other. Requests to a partition wait while it is repaired, all
others go on. A lost record comes back from a replica only; where an
older record of its name is left, that counts again until then, and is told. So
make sure that the partition has other replicas, or keep what is in quarantine.

  --apply        does it
  --conf CONF    of the server that has the device, which tells its address
                 (default /etc/martlet/object-server.conf)
  --json         JSON: a line for each partition

examples:
  martlet-object-server bundle repair /srv/node/d1
  martlet-object-server bundle repair --apply /srv/node/d1/bundles/600

Exit status: 0 nothing is damaged any more, 1 damage is left, 2 it could not be done.
`

const damagesUsage = `usage: martlet-object-server bundle damages [--json] PATH...

Lists what the object server has found damaged on a device: when it was first seen,
where it is, the name if that is known, and why. What was written anew or repaired
since is not in it, nor what no request, no opening and no repair has met: "verify"
finds that. PATH is a device. Nothing is changed, and the server may run.

  --json         JSON, one damage a line

examples:
  martlet-object-server bundle damages /srv/node/d1
  martlet-object-server bundle damages --json /srv/node/d1 | jq -r '.lost[]?.name'

Exit status: 0 none is known, 1 some are, 2 the list could not be read.
`

// errUsage: the command line is wrong.
var errUsage = errors.New("usage")

// errDamage: damage was found, and has been told.
var errDamage = errors.New("damage")

// errTold: something could not be read, and has been told.
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

// status tells of an error, and is the exit status for it.
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
