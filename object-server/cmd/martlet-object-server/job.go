package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os/signal"
	"slices"
	"syscall"

	"martlet/object-server/background"
	"martlet/object-server/grid"
	"martlet/object-server/grid/certs"
	"martlet/object-server/grid/frame"
	"martlet/object-server/grid/login"
	"martlet/object-server/ring"
	"martlet/object-server/server/conf"
)

// jobOptions are those of the command line of a background job.
type jobOptions struct {
	conf     string
	once     bool
	json     bool
	fast     bool // of audit
	devices  map[string]bool
	policies map[int]bool
}

// parseJob reads a command line; more adds options to those of all jobs.
func parseJob(arguments []string, more func(o *jobOptions, flags *flag.FlagSet)) (*jobOptions, error) {
	o := &jobOptions{conf: relinkerConf, devices: map[string]bool{}, policies: map[int]bool{}}
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
	if more != nil {
		more(o, flags)
	}
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
	if o.fast && !o.once {
		return nil, errors.New("--fast needs --once")
	}
	return o, nil
}

// runJob runs a background job, and returns the exit status.
func runJob(
	name, usage string, arguments []string, more func(o *jobOptions, flags *flag.FlagSet), stdout, stderr io.Writer,
	do func(o *jobOptions, stdout, stderr io.Writer) (failures int, err error),
) int {
	if slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") {
		fmt.Fprint(stdout, usage)
		return 0
	}
	o, err := parseJob(arguments, more)
	if err != nil {
		fmt.Fprintf(stderr, "martlet-object-server %s: %v\n%s", name, err, usage)
		return 2
	}
	failures, err := do(o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "martlet-object-server %s: %v\n", name, err)
	}
	if err != nil || failures > 0 {
		return 1
	}
	return 0
}

// job is a process of background work: its configuration, its log, its connections to object servers.
type job struct {
	options     *jobOptions
	config      *conf.Config
	logger      *slog.Logger
	connections *grid.Grid
	ctx         context.Context // until a signal ends the job
	stop        func()

	level *slog.LevelVar
	certs *certs.Store
}

// startJob gives the process its priority, and prepares what all jobs need. stop must follow.
func startJob(o *jobOptions, name string, priority func(*conf.Config) background.Priority, stderr io.Writer) (*job, error) {
	config, err := conf.Read(o.conf)
	if err != nil {
		return nil, err
	}
	if err := background.Apply(priority(config)); err != nil {
		return nil, err
	}
	j := &job{options: o, config: config, level: &slog.LevelVar{}}
	j.level.Set(config.LogLevel)
	log := newLines(stderr)
	j.logger = newLogger(log, j.level, config.LogJSON)
	options := frame.Defaults()
	options.Name, options.Checksum = name+" "+config.BindIP, config.Grid.Checksum
	if j.certs, err = certs.Load(config.Grid.TLS); err != nil {
		return nil, err
	}
	dialer := &login.Dialer{TLS: j.certs, Plain: config.Grid.PlainHTTP} // without secrets: the grid has its own proof
	j.connections, err = grid.New(grid.Config{Secrets: config.Grid.Secrets, Options: options, Log: j.logger, Dial: dialer.DialContext})
	if err != nil {
		return nil, err
	}
	var end context.CancelFunc
	j.ctx, end = signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	j.stop = func() {
		end()
		j.connections.Close()
		log.flush()
	}
	return j, nil
}

// reloads answers signals from now on: what all jobs apply, and what this one does.
func (j *job) reloads(own func(now *conf.Config)) {
	reloads := newReloader(j.options.conf, j.level, j.logger)
	apply := func(now *conf.Config) error {
		own(now)
		j.config.Grid.Secrets.Use(now.Grid.Secrets)
		j.connections.UseChecksum(now.Grid.Checksum)
		return j.certs.Reload(now.Grid.TLS)
	}
	reloads.apply.Store(&apply)
	go reloads.run()
}

// policies are those that are worked on.
func (j *job) policies() []int {
	policies := slices.Sorted(maps.Keys(j.config.Policies))
	if len(j.options.policies) > 0 {
		policies = slices.DeleteFunc(policies, func(n int) bool { return !j.options.policies[n] })
	}
	return policies
}

// isOwn tells whether a device of a ring is of this host's object server, and to be worked on.
func (j *job) isOwn() func(d *ring.Device) bool {
	own, chosen := ownAddresses(j.config), j.options.devices
	return func(d *ring.Device) bool {
		return d.Port == j.config.BindPort && own(d.IP) && (len(chosen) == 0 || chosen[d.Name])
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
