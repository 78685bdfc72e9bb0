package main

import (
	"encoding/json"
	"flag"
	"io"
	"os"
	"time"

	"martlet/object-server/auditor"
	"martlet/object-server/background"
	"martlet/object-server/ring"
	"martlet/object-server/server/conf"
	"martlet/object-server/vfs"
)

const auditUsage = `usage: martlet-object-server audit [CONF] [--once] [--fast] [--device DEVICE] [--policy POLICY] [--json]

Reads what the devices of this host store, at a set rate, and checks every checksum. What
is damaged is not served any more, and the replicator of this host gets it from peers. The
object server of this host must run. CONF is its conf (default
/etc/martlet/object-server.conf); section [object-auditor] has the options.

  --once             one pass over all, then stop
  --fast             with --once: without the bytes of objects
  --device DEVICE    only this device of this host; may be repeated
  --policy POLICY    only this storage policy, by its index; may be repeated
  --json             with --once: the figures of the pass as JSON

On SIGHUP it reads the rates and [grid] of martlet.conf again.

examples:
  martlet-object-server audit /etc/martlet/object-server.conf
  martlet-object-server audit --once --device d3 --json

Exit status: 0 all of a pass was audited, or a signal; 1 damage was found, or something
could not be audited; 2 the command line is wrong.
`

func runAudit(arguments []string, stdout, stderr io.Writer) int {
	fast := func(o *jobOptions, flags *flag.FlagSet) { flags.BoolVar(&o.fast, "fast", false, "") }
	return runJob("audit", auditUsage, arguments, fast, stdout, stderr, audit)
}

// audit runs one pass or, until a signal, many. It returns what was found by the only pass, or failed.
func audit(o *jobOptions, stdout, stderr io.Writer) (failures int, err error) {
	j, err := startJob(o, "object auditor", func(c *conf.Config) background.Priority { return c.Auditor.Priority }, stderr)
	if err != nil {
		return 0, err
	}
	defer j.stop()
	a := auditor.New(auditorConfig(j))
	j.reloads(func(now *conf.Config) { a.SetRates(ratesOf(&now.Auditor)) })
	if !o.once {
		a.Run(j.ctx)
		return 0, nil
	}
	kind := auditor.Full
	if o.fast {
		kind = auditor.Fast
	}
	began := time.Now()
	report, err := a.Once(j.ctx, kind)
	if err != nil { // a signal
		return 0, nil
	}
	j.logger.Info("audit pass", "kind", kind.String(), "seconds", time.Since(began).Seconds(), "partitions", report.Partitions,
		"objects", report.Objects, "bytes", report.Bytes, "damages", report.Damages, "refuted", report.Refuted,
		"failures", report.Failures, "running", report.Running, "pid", os.Getpid())
	if o.json {
		err = json.NewEncoder(stdout).Encode(report)
	}
	return report.Damages + report.Failures + report.Running, err
}

func auditorConfig(j *job) auditor.Config {
	c := &j.config.Auditor
	return auditor.Config{
		Rings:       &ring.Files{Directory: j.config.SwiftDir, Logger: j.logger},
		Policies:    j.policies(),
		IsOwn:       j.isOwn(),
		Hasher:      ring.NewHasher(j.config.HashPrefix, j.config.HashSuffix),
		Devices:     j.config.Devices,
		Files:       vfs.ReadOnly{Ahead: true},
		Grid:        j.connections,
		NodeTimeout: c.NodeTimeout,
		Concurrency: c.Concurrency,
		Stall:       c.NodeTimeout,
		Rates:       ratesOf(c),
		Intervals:   [2]time.Duration{auditor.Full: c.Interval, auditor.Fast: c.FastInterval},
		Logger:      j.logger,

		ReconCachePath: figuresOf(j, c.ReconCachePath),
	}
}

// figuresOf is the directory for the figures; none if only a part is worked on, which would be read as all.
func figuresOf(j *job, directory string) string {
	if len(j.options.devices)+len(j.options.policies) > 0 {
		return ""
	}
	return directory
}

func ratesOf(c *conf.Auditor) auditor.Rates {
	return auditor.Rates{
		BytesPerSecond: c.BytesPerSecond,
		Objects:        [2]int64{auditor.Full: c.FilesPerSecond, auditor.Fast: c.ZeroByteFilesPerSecond},
	}
}
