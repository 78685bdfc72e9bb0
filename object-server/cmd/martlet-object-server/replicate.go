package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/replicator"
	"martlet/object-server/ring"
	"martlet/object-server/server/conf"
)

const replicateUsage = `usage: martlet-object-server replicate [CONF] [--once] [--device DEVICE] [--policy POLICY] [--json]

Makes the replicas of the objects on this host equal to those of its peers. It compares
each partition with its peers, sends what they miss, and removes hand-offs that all
primaries have. The object servers of all hosts must run: it works through them. CONF
is the conf of the object server of this host (default
/etc/martlet/object-server.conf); section [object-replicator] has its options.

  --once             one pass, then stop
  --device DEVICE    only this device of this host; may be repeated
  --policy POLICY    only this storage policy, by its index; may be repeated
  --json             with --once: the figures of the pass as JSON

On SIGHUP it reads bytes_per_second and [grid] of martlet.conf again.

examples:
  martlet-object-server replicate /etc/martlet/object-server.conf
  martlet-object-server replicate --once --device d3

Exit status: 0 all of a pass succeeded, or a signal; 1 something failed; 2 the command
line is wrong.
`

func runReplicate(arguments []string, stdout, stderr io.Writer) int {
	return runJob("replicate", replicateUsage, arguments, nil, stdout, stderr, replicate)
}

// replicate runs one pass or, until a signal, many. It returns the failures of the only pass.
func replicate(o *jobOptions, stdout, stderr io.Writer) (failures int, err error) {
	j, err := startJob(o, "object replicator", func(c *conf.Config) background.Priority { return c.Replicator.Priority }, stderr)
	if err != nil {
		return 0, err
	}
	defer j.stop()
	r := replicator.New(replicatorConfig(j))
	j.reloads(func(now *conf.Config) { r.SetRate(now.Replicator.BytesPerSecond) })
	figures := &passFigures{directory: j.config.Replicator.ReconCachePath, logger: j.logger}
	if o.once {
		report, err := pass(j.ctx, r, 0, j.logger)
		if err == nil && len(o.devices)+len(o.policies) == 0 { // figures of a part would be read as those of all
			figures.write(r)
		}
		if j.ctx.Err() != nil { // a signal
			return 0, nil
		}
		if err == nil && o.json {
			err = json.NewEncoder(stdout).Encode(report)
		}
		return report.Failures, err
	}
	go r.Follow(j.ctx)
	return 0, passes(j.ctx, r, j.config.Replicator.Interval, figures, j.logger)
}

func replicatorConfig(j *job) replicator.Config {
	return replicator.Config{
		Rings:       &ring.Files{Directory: j.config.SwiftDir, Logger: j.logger},
		Policies:    j.policies(),
		IsOwn:       j.isOwn(),
		Devices:     j.config.Devices,
		Grid:        j.connections,
		NodeTimeout: j.config.Replicator.NodeTimeout,
		Concurrency: j.config.Replicator.Concurrency,
		Rate:        j.config.Replicator.BytesPerSecond,
		Logger:      j.logger,
	}
}

// passes makes one pass after another, until the context ends.
func passes(ctx context.Context, r *replicator.Replicator, interval time.Duration, figures *passFigures, logger *slog.Logger) error {
	for ctx.Err() == nil {
		next := time.NewTimer(interval)
		if _, err := pass(ctx, r, interval, logger); err != nil && ctx.Err() == nil {
			logger.Error("replication pass failed", "error", err) // a ring that cannot be read, for example
		}
		figures.write(r)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
		}
	}
	return nil
}

func pass(ctx context.Context, r *replicator.Replicator, patience time.Duration, logger *slog.Logger) (*replicator.Report, error) {
	began := time.Now()
	report, err := r.Pass(ctx, patience)
	if err != nil {
		return &replicator.Report{}, err
	}
	logger.Info("replication pass", "seconds", time.Since(began).Seconds(), "partitions", report.Partitions, "in_sync", report.InSync,
		"handoffs", report.Handoffs, "given_back", report.GivenBack, "sent", report.Sent, "bytes", report.Bytes,
		"fetched", report.Fetched, "damaged", report.Damaged, "doubtful", report.Doubtful, "failures", report.Failures, "running", report.Running, "pid", os.Getpid())
	return report, nil
}
