package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/grid"
	"martlet/object-server/grid/certs"
	"martlet/object-server/grid/frame"
	"martlet/object-server/grid/login"
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

On SIGHUP it reads bytes_per_second and the secrets of martlet.conf again.

examples:
  martlet-object-server replicate /etc/martlet/object-server.conf
  martlet-object-server replicate --once --device d3

Exit status: 0 all of a pass succeeded, or a signal; 1 something failed; 2 the command
line is wrong.
`

type replicateOptions struct {
	conf     string
	once     bool
	json     bool
	devices  map[string]bool
	policies map[int]bool
}

func parseReplicate(arguments []string) (*replicateOptions, error) {
	o := &replicateOptions{conf: relinkerConf, devices: map[string]bool{}, policies: map[int]bool{}}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.once, "once", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.Func("device", "", func(value string) error { o.devices[value] = true; return nil })
	flags.Func("policy", "", func(value string) error {
		var policy int
		_, err := fmt.Sscanf(value, "%d", &policy)
		o.policies[policy] = true
		return err
	})
	var words []string
	for len(arguments) > 0 { // options may be before and after the conf
		if err := flags.Parse(arguments); err != nil {
			return nil, err
		}
		if arguments = flags.Args(); len(arguments) > 0 {
			words, arguments = append(words, arguments[0]), arguments[1:]
		}
	}
	if len(words) > 1 {
		return nil, fmt.Errorf("%q is one argument too many", words[1])
	}
	if len(words) == 1 {
		o.conf = words[0]
	}
	if o.json && !o.once {
		return nil, errors.New("--json needs --once")
	}
	return o, nil
}

func runReplicate(arguments []string, stdout, stderr io.Writer) int {
	if slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") {
		fmt.Fprint(stdout, replicateUsage)
		return 0
	}
	o, err := parseReplicate(arguments)
	if err != nil {
		fmt.Fprintf(stderr, "martlet-object-server replicate: %v\n%s", err, replicateUsage)
		return 2
	}
	failures, err := replicate(o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "martlet-object-server replicate: %v\n", err)
	}
	if err != nil || failures > 0 {
		return 1
	}
	return 0
}

// replicate runs one pass or, until a signal, many. It returns the failures of the only pass.
func replicate(o *replicateOptions, stdout, stderr io.Writer) (failures int, err error) {
	config, err := conf.Read(o.conf)
	if err != nil {
		return 0, err
	}
	if err := background.Apply(config.Replicator.Priority); err != nil {
		return 0, err
	}
	var level slog.LevelVar
	level.Set(config.LogLevel)
	log := newLines(stderr)
	defer log.flush()
	logger := newLogger(log, &level)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	options := frame.Defaults()
	options.Name, options.Checksum = "object replicator "+config.BindIP, config.Grid.Checksum
	store, err := certs.Load(config.Grid.TLS)
	if err != nil {
		return 0, err
	}
	dialer := &login.Dialer{TLS: store, Plain: config.Grid.PlainHTTP} // without secrets: the grid has its own proof
	connections, err := grid.New(grid.Config{Secrets: config.Grid.Secrets, Options: options, Log: logger, Dial: dialer.DialContext})
	if err != nil {
		return 0, err
	}
	defer connections.Close()
	r := replicator.New(replicatorConfig(o, config, connections, logger))
	reloads := newReloader(o.conf, &level, logger)
	apply := func(now *conf.Config) error {
		r.SetRate(now.Replicator.BytesPerSecond)
		config.Grid.Secrets.Use(now.Grid.Secrets)
		return store.Reload(now.Grid.TLS)
	}
	reloads.apply.Store(&apply)
	go reloads.run()
	figures := &passFigures{directory: config.Replicator.ReconCachePath, logger: logger}
	if o.once {
		report, err := pass(ctx, r, 0, logger)
		if err == nil && len(o.devices)+len(o.policies) == 0 { // figures of a part would be read as those of all
			figures.write(r)
		}
		if ctx.Err() != nil { // a signal
			return 0, nil
		}
		if err == nil && o.json {
			err = json.NewEncoder(stdout).Encode(report)
		}
		return report.Failures, err
	}
	go r.Follow(ctx)
	return 0, passes(ctx, r, config.Replicator.Interval, figures, logger)
}

func replicatorConfig(o *replicateOptions, config *conf.Config, connections *grid.Grid, logger *slog.Logger) replicator.Config {
	policies := slices.Sorted(maps.Keys(config.Policies))
	if len(o.policies) > 0 {
		policies = slices.DeleteFunc(policies, func(n int) bool { return !o.policies[n] })
	}
	own := ownAddresses(config)
	return replicator.Config{
		Rings:    &ring.Files{Directory: config.SwiftDir},
		Policies: policies,
		IsOwn: func(d *ring.Device) bool {
			return d.Port == config.BindPort && own(d.IP) && (len(o.devices) == 0 || o.devices[d.Name])
		},
		Devices:     config.Devices,
		Grid:        connections,
		NodeTimeout: config.Replicator.NodeTimeout,
		Concurrency: config.Replicator.Concurrency,
		Rate:        config.Replicator.BytesPerSecond,
		Logger:      logger,
	}
}

// ownAddresses returns whether the address of a device, or the name of its host, is that of this host's object server.
func ownAddresses(config *conf.Config) func(host string) bool {
	isOwn := isLocal
	if bound := net.ParseIP(config.BindIP); bound != nil && !bound.IsUnspecified() {
		isOwn = bound.Equal
	}
	return func(host string) bool {
		if ip := net.ParseIP(host); ip != nil {
			return isOwn(ip)
		}
		found, err := net.LookupIP(host)
		return err == nil && slices.ContainsFunc(found, isOwn)
	}
}

// isLocal tells whether an address is one of this host.
func isLocal(ip net.IP) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
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
