package main

import (
	"encoding/json"
	"io"
	"os"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/lifecycle"
	"martlet/object-server/ring"
	"martlet/object-server/server/conf"
	"martlet/object-server/vfs"
)

const lifecycleUsage = `usage: martlet-object-server lifecycle [CONF] [--once] [--device DEVICE] [--policy POLICY] [--json]

Carries out the lifecycle rules of buckets for the devices of this host: it deletes
objects, versions and unfinished uploads that have expired. The object server of this
host must run. CONF is its conf (default /etc/martlet/object-server.conf); section
[object-lifecycle] has the options.

  --once             one pass over all, then stop
  --device DEVICE    only this device of this host; may be repeated
  --policy POLICY    only this storage policy, by its index; may be repeated
  --json             with --once: the figures of the pass as JSON

On SIGHUP it reads the rates and [grid] of martlet.conf again.

examples:
  martlet-object-server lifecycle /etc/martlet/object-server.conf
  martlet-object-server lifecycle --once --json

Exit status: 0 all of a pass was done, or a signal; 1 something is to be tried again; 2
the command line is wrong.
`

func runLifecycle(arguments []string, stdout, stderr io.Writer) int {
	return runJob("lifecycle", lifecycleUsage, arguments, nil, stdout, stderr, carryOut)
}

// carryOut makes one pass or, until a signal, many. It returns what failed in the only pass.
func carryOut(o *jobOptions, stdout, stderr io.Writer) (failures int, err error) {
	j, err := startJob(o, "object lifecycle", func(c *conf.Config) background.Priority { return c.Lifecycle.Priority }, stderr)
	if err != nil {
		return 0, err
	}
	defer j.stop()
	l := lifecycle.New(lifecycleConfig(j))
	j.reloads(func(now *conf.Config) { l.SetRates(deletionRates(&now.Lifecycle)) })
	if !o.once {
		l.Run(j.ctx)
		return 0, nil
	}
	report, err := l.Once(j.ctx)
	if err != nil { // a signal
		return 0, nil
	}
	if o.json {
		err = json.NewEncoder(stdout).Encode(report)
	}
	return report.Failures + report.Running, err
}

func lifecycleConfig(j *job) lifecycle.Config {
	c := &j.config.Lifecycle
	return lifecycle.Config{
		Rings:       &ring.Files{Directory: j.config.SwiftDir, Logger: j.logger},
		Policies:    j.policies(),
		IsOwn:       j.isOwn(),
		Hasher:      ring.NewHasher(j.config.HashPrefix, j.config.HashSuffix),
		Devices:     j.config.Devices,
		Files:       vfs.ReadOnly{Ahead: true},
		Grid:        j.connections,
		NodeTimeout: c.NodeTimeout,
		Concurrency: c.Concurrency,
		Rates:       deletionRates(c),
		Interval:    c.Interval,
		Day:         time.Duration(c.DaySeconds) * time.Second,
		Logger:      j.logger.With("pid", os.Getpid()),

		ReconCachePath: figuresOf(j, c.ReconCachePath),
	}
}

func deletionRates(c *conf.Lifecycle) lifecycle.Rates {
	return lifecycle.Rates{BytesPerSecond: c.BytesPerSecond, ObjectsPerSecond: c.ObjectsPerSecond}
}
