// Command martlet-object-server serves the objects on the devices of one host.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/firstthread"
	"martlet/object-server/server"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/metrics"
)

// version is set when a release is built: -ldflags "-X main.version=1.2.3".
var version = ""

const usage = `usage: martlet-object-server [serve] CONF
       martlet-object-server replicate [CONF] ...                     see replicate --help
       martlet-object-server audit [CONF] ...                         see audit --help
       martlet-object-server lifecycle [CONF] ...                     see lifecycle --help
       martlet-object-server relinker relink | cleanup ...             see relinker --help
       martlet-object-server bundle ls | dump | verify | repair | damages ...    see bundle --help
       martlet-object-server --check CONF
       martlet-object-server --help | --version | --print-options | --print-metrics

Serves the objects on the devices of one host until SIGTERM or SIGINT. On SIGHUP it
reads a new log_level, [grid] of martlet.conf and the certificates. CONF is an ini file; etc/object-server.conf-sample shows its
options.

examples:
  martlet-object-server /etc/martlet/object-server.conf
  martlet-object-server serve /etc/martlet/object-server.conf
  martlet-object-server --check /etc/martlet/object-server.conf
                                           says what a start would refuse, and starts nothing
  martlet-object-server --print-options    each option and its default
  martlet-object-server --print-metrics    each metric and its labels

It prints one line with its address on standard output once it accepts
requests, and logs to standard error. Exit status: 0 after a signal, 1 if it
could not start or failed, 2 if the command line is wrong.
`

func main() {
	arguments := os.Args[1:]
	if filepath.Base(os.Args[0]) == relinkerName {
		arguments = append([]string{"relinker"}, arguments...)
	}
	os.Exit(run(arguments, os.Stdout, os.Stderr))
}

func run(arguments []string, stdout, stderr io.Writer) int {
	if len(arguments) > 0 && arguments[0] == "relinker" {
		return runRelinker(arguments[1:], stdout, stderr)
	}
	if len(arguments) > 0 && arguments[0] == "replicate" {
		return runReplicate(arguments[1:], stdout, stderr)
	}
	if len(arguments) > 0 && arguments[0] == "audit" {
		return runAudit(arguments[1:], stdout, stderr)
	}
	if len(arguments) > 0 && arguments[0] == "lifecycle" {
		return runLifecycle(arguments[1:], stdout, stderr)
	}
	if len(arguments) > 0 && arguments[0] == "bundle" {
		return runBundle(arguments[1:], stdout, stderr)
	}
	if len(arguments) > 1 && arguments[0] == "serve" {
		arguments = arguments[1:]
	}
	if len(arguments) == 2 && arguments[0] == "--check" {
		return statusOf(server.Check(arguments[1]), stderr)
	}
	if len(arguments) != 1 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	var err error
	switch argument := arguments[0]; argument {
	case "--help", "-h":
		_, err = fmt.Fprint(stdout, usage)
	case "--version":
		_, err = fmt.Fprintln(stdout, "martlet-object-server", versionText())
	case "--print-options":
		err = conf.PrintOptions(stdout)
	case "--print-metrics":
		err = metrics.Print(stdout)
	default:
		if argument == "serve" || argument[:min(1, len(argument))] == "-" {
			fmt.Fprint(stderr, usage)
			return 2
		}
		err = serve(argument, stdout, stderr)
	}
	return statusOf(err, stderr)
}

// statusOf writes an error, if there is one, and returns the exit status.
func statusOf(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintf(stderr, "martlet-object-server: %v\n", err)
		return 1
	}
	return 0
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// heapFloor is memory that is never touched, so it uses no RAM. But it counts when the runtime decides to collect garbage:
// when as much was allocated as is in use. The index in memory may take a few megabytes, and requests leave a hundred
// megabytes of garbage in a second. With heapFloor up to 128 MiB of garbage may collect first.
const heapFloor = 64 << 20

// timerSlack is how much later than it asked the kernel may wake a thread; its default is 50 µs. While the server works, a
// thread of the runtime looks after the others and sleeps for 20 µs at a time. That took a sixth of the server's CPU.
const timerSlack = 200 * time.Microsecond

func setTimerSlack() error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0)
}

// serve runs until a signal asks it to stop; reloader handles other signals.
func serve(path string, stdout, stderr io.Writer) error {
	config, err := conf.Read(path)
	if err != nil {
		return err
	}
	if err := firstthread.Restart(setTimerSlack); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGPIPE)
	var level slog.LevelVar
	level.Set(config.LogLevel)
	log := newLines(stderr)
	defer log.flush()
	logger := newLogger(log, &level, config.LogJSON)
	reloads := newReloader(path, &level, logger)
	go reloads.run()
	listener, err := listen(config)
	if err != nil {
		return err
	}
	ballast := make([]byte, heapFloor)
	defer runtime.KeepAlive(ballast)
	for _, option := range config.WithoutEffect {
		logger.Warn("option of OpenStack Swift has no effect", "option", option)
	}
	s, err := server.New(config, logger, versionText())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	apply := s.ReloadGrid
	reloads.apply.Store(&apply)
	if _, err := fmt.Fprintf(stdout, "listening on %s\n", listener.Addr()); err != nil {
		logger.Warn("the address could not be printed", "error", err)
	}
	sayReady()
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	select {
	case received := <-stop:
		logger.Info("stopping", "signal", received.String())
	case err = <-failed:
	}
	ctx, cancel := context.WithTimeout(context.Background(), config.ShutdownTimeout)
	defer cancel()
	return errors.Join(err, s.Shutdown(ctx))
}

func listen(config *conf.Config) (net.Listener, error) {
	address := net.JoinHostPort(config.BindIP, strconv.Itoa(config.BindPort))
	network := "tcp"
	if ip := net.ParseIP(config.BindIP); ip.To4() != nil {
		network = "tcp4" // otherwise 0.0.0.0 would include every address of IPv6
	}
	listener, err := net.Listen(network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process; set bind_port to a free port", address)
	}
	return listener, err
}
