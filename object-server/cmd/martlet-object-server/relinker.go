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
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"martlet/object-server/grid/certs"
	"martlet/object-server/grid/login"
	"martlet/object-server/server"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/relink"
)

// relinkerName is another name of the program, like that of Swift's relinker.
const relinkerName = "martlet-object-relinker"

const relinkerUsage = `usage: martlet-object-relinker relink | cleanup [CONF] [--policy POLICY] [--device DEVICE]
                               [--swift-dir DIR] [--devices DIR] [--skip-mount-check]
                               [--stats-interval SECONDS] [--json]

Raises the part power of the devices of one object server, in two steps before and
after that of the ring. CONF is the conf of that server (default
/etc/martlet/object-server.conf).

  relink     after prepare_increase_partition_power: the devices learn the next part
             power, and find their objects with the old and the new ring. Nothing is
             moved
  cleanup    after increase_partition_power: splits each partition in two, in the
             background, while the server works; or after
             cancel_increase_partition_power: undoes relink

  --policy POLICY         only this storage policy, by its index; may be repeated
  --device DEVICE         only this device, by its name; may be repeated
  --swift-dir DIR         directory of martlet.conf and the rings, if not that of CONF
  --devices DIR           directory of the devices, if not that of CONF
  --skip-mount-check      devices need not be mount points
  --stats-interval SECONDS  how often to print the progress (default 300); on a
                          terminal there is a bar
  --json                  the figures of each device as JSON at the end
  --workers, --files-per-second, --debug
                          are accepted for existing scripts and change nothing: the
                          server splits one partition at a time on each device, and
                          pauses after each for as long as the split took

It asks the running server, which uses the devices and rings of its own conf, and
waits until all is done. It may be interrupted and run again: the server goes on. If
no server runs, the command does the work itself, and no server can start meanwhile.

examples, on each server:
  martlet-object-relinker relink
  martlet-object-relinker relink --policy 1 --device d3
  martlet-object-relinker cleanup /etc/martlet/object-server.conf

Exit status: 0 done, 1 a device or the command failed, 2 no ring asks for that step, or
the command line is wrong.
`

// relinkerOptions are those of the command line.
type relinkerOptions struct {
	step           string
	conf           string
	swiftDir       string
	devicesDir     string
	skipMountCheck bool
	policies       []string
	devices        []string
	interval       float64
	json           bool
}

const relinkerConf = "/etc/martlet/object-server.conf"

func parseRelinker(arguments []string) (*relinkerOptions, error) {
	o := &relinkerOptions{conf: relinkerConf}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	add := func(list *[]string) func(string) error {
		return func(value string) error { *list = append(*list, value); return nil }
	}
	flags.StringVar(&o.swiftDir, "swift-dir", "", "")
	flags.StringVar(&o.devicesDir, "devices", "", "")
	flags.BoolVar(&o.skipMountCheck, "skip-mount-check", false, "")
	flags.BoolVar(&o.skipMountCheck, "skip-mount", false, "")
	flags.Float64Var(&o.interval, "stats-interval", 300, "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.String("workers", "", "")
	flags.String("files-per-second", "", "")
	flags.Bool("debug", false, "")
	flags.Func("policy", "", add(&o.policies))
	flags.Func("device", "", add(&o.devices))
	var words []string
	for len(arguments) > 0 { // options may be before and after the words
		if err := flags.Parse(arguments); err != nil {
			return nil, err
		}
		if arguments = flags.Args(); len(arguments) > 0 {
			words, arguments = append(words, arguments[0]), arguments[1:]
		}
	}
	switch {
	case len(words) == 0:
		return nil, errors.New("relink or cleanup is missing")
	case words[0] != relink.StepRelink && words[0] != relink.StepCleanup:
		return nil, fmt.Errorf("%q is neither relink nor cleanup", words[0])
	case len(words) > 2:
		return nil, fmt.Errorf("%q is one argument too many", words[2])
	case o.interval <= 0:
		return nil, errors.New("--stats-interval must be more than 0")
	case len(words) == 2:
		o.conf = words[1]
	}
	for _, policy := range o.policies {
		if _, err := strconv.ParseUint(policy, 10, 16); err != nil {
			return nil, fmt.Errorf("--policy %s is not an index", policy)
		}
	}
	o.step = words[0]
	return o, nil
}

// relinkerTarget is the server that has the devices: a running one, or one inside this
// process.
type relinkerTarget interface {
	begin(o *relinkerOptions) (*relink.Answer, error)
	look() (*relink.Answer, error)
	close() error
}

func runRelinker(arguments []string, stdout, stderr io.Writer) int {
	o, err := parseRelinker(arguments)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, relinkerUsage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v; see --help\n", relinkerName, err)
		return 2
	}
	status, err := takeStep(o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", relinkerName, err)
		return 1
	}
	return status
}

func takeStep(o *relinkerOptions, stdout, stderr io.Writer) (status int, err error) {
	config, err := conf.ReadIn(o.conf, o.swiftDir)
	if err != nil {
		return 0, err
	}
	if o.devicesDir != "" {
		config.Devices = o.devicesDir
	}
	config.MountCheck = config.MountCheck && !o.skipMountCheck
	target, err := newRelinkerTarget(config, stderr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	answer, err := target.begin(o)
	if err != nil {
		return 0, err
	}
	if answer.Policies == 0 {
		fmt.Fprintln(stderr, "No policy found to increase the partition power.")
		return 2, nil
	}
	if answer, err = await(target, answer, o, stderr); err != nil {
		return 0, err
	}
	return o.report(answer, stdout, stderr)
}

// each visits the devices that were asked for, in order.
func (o *relinkerOptions) each(a *relink.Answer, visit func(device, policy string, one relink.Device)) {
	for _, device := range slices.Sorted(maps.Keys(a.Devices)) {
		for _, policy := range slices.Sorted(maps.Keys(a.Devices[device])) {
			if o.isAsked(o.devices, device) && o.isAsked(o.policies, policy) {
				visit(device, policy, a.Devices[device][policy])
			}
		}
	}
}

func (o *relinkerOptions) isAsked(list []string, one string) bool {
	return list == nil || slices.Contains(list, one)
}

// report prints the result.
func (o *relinkerOptions) report(a *relink.Answer, stdout, stderr io.Writer) (status int, err error) {
	if o.json {
		if err := json.NewEncoder(stdout).Encode(a); err != nil {
			return 0, err
		}
	}
	o.each(a, func(device, policy string, one relink.Device) {
		if one.Error != "" {
			status = 1
			fmt.Fprintf(stderr, "%s: %s, policy %s: %s\n", relinkerName, device, policy, one.Error)
			return
		}
		switch {
		case o.json:
		case one.NextPartPower == nil:
			_, err = fmt.Fprintf(stdout, "%s, policy %s: part power %d, %d partitions split\n", device, policy, one.PartPower, one.PartsDone)
		default:
			_, err = fmt.Fprintf(stdout, "%s, policy %s: ready to go from part power %d to %d\n", device, policy, one.PartPower, *one.NextPartPower)
		}
	})
	return status, err
}

// lookEvery is how often the command asks the server for its progress; awayMax is how
// long the server may be away, to be started again.
const (
	lookEvery = 200 * time.Millisecond
	awayMax   = time.Minute
)

// await waits until each device is done or has failed.
func await(target relinkerTarget, a *relink.Answer, o *relinkerOptions, stderr io.Writer) (*relink.Answer, error) {
	start, said, seen := time.Now(), time.Now(), time.Now()
	isDrawn := isTerminal(stderr)
	for {
		done, left, isBusy := 0, 0, false
		o.each(a, func(_, _ string, one relink.Device) {
			done, left = done+one.PartsDone, left+max(one.PartsLeft, 0)
			isBusy = isBusy || one.IsSplitting && one.Error == ""
		})
		line := fmt.Sprintf("%d of about %d partitions split, %s", done, done+left, time.Since(start).Round(time.Second))
		if isDrawn {
			const width = 24
			full := width * done / max(done+left, 1)
			fmt.Fprintf(stderr, "\r[%s%s] %-50s", strings.Repeat("#", full), strings.Repeat(".", width-full), line)
		} else if time.Since(said).Seconds() >= o.interval {
			said = time.Now()
			fmt.Fprintln(stderr, line)
		}
		if !isBusy {
			if isDrawn {
				fmt.Fprintf(stderr, "\r%s\r", strings.Repeat(" ", 78))
			}
			return a, nil
		}
		time.Sleep(lookEvery)
		now, err := target.look()
		if err != nil {
			if time.Since(seen) > awayMax {
				return nil, fmt.Errorf("the object server does not answer; it goes on when it is started again, and %s may be run again: %w", relinkerName, err)
			}
			continue
		}
		now.Policies = a.Policies
		keepLost(a, now)
		a, seen = now, time.Now()
	}
}

// keepLost marks devices as not done that the server had and does not have any more.
func keepLost(before, now *relink.Answer) {
	for name, policies := range before.Devices {
		if _, isThere := now.Devices[name]; isThere {
			continue
		}
		for policy, one := range policies {
			if one.Error == "" {
				one.Error = "the device has disappeared; its partitions are split when it is back"
			}
			policies[policy] = one
		}
		if now.Devices == nil {
			now.Devices = map[string]map[string]relink.Device{}
		}
		now.Devices[name] = policies
	}
}

// newRelinkerTarget finds the running server, or makes one in this process.
func newRelinkerTarget(config *conf.Config, stderr io.Writer) (relinkerTarget, error) {
	running, err := newRunningServer(config, "/recon/relinker")
	if err != nil {
		return nil, err
	}
	_, err = running.look()
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return running, err
	}
	s, err := server.New(config, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), versionText())
	if err != nil {
		return nil, err
	}
	return &ownServer{s}, nil
}

type runningServer struct {
	url    url.URL
	client http.Client
}

// newRunningServer is the server of this host at a path.
func newRunningServer(config *conf.Config, path string) (*runningServer, error) {
	host := config.BindIP
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	store, err := certs.Load(config.Grid.TLS)
	if err != nil {
		return nil, err
	}
	dialer := &login.Dialer{Secrets: config.Grid.Secrets, TLS: store}
	return &runningServer{
		url: url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(config.BindPort)), Path: path},
		client: http.Client{
			Timeout:   time.Hour, // it reads one record of each partition, which takes long if there are many
			Transport: &http.Transport{DialContext: dialer.DialContext},
		},
	}, nil
}

func (r *runningServer) begin(o *relinkerOptions) (*relink.Answer, error) {
	return r.ask(http.MethodPost, url.Values{"step": {o.step}, "policy": o.policies, "device": o.devices})
}

func (r *runningServer) look() (*relink.Answer, error) { return r.ask(http.MethodGet, nil) }

func (r *runningServer) close() error { return nil }

func (r *runningServer) ask(method string, query url.Values) (*relink.Answer, error) {
	answer := &relink.Answer{}
	if err := r.request(method, query, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// request decodes the JSON of an answer.
func (r *runningServer) request(method string, query url.Values, answer any) error {
	at := r.url
	at.RawQuery = query.Encode()
	request, err := http.NewRequest(method, at.String(), nil)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", r.url.Host, response.Status, strings.TrimSpace(string(body)))
	}
	return json.Unmarshal(body, answer)
}

// ownServer has the devices in this process, and answers no requests.
type ownServer struct{ *server.Server }

func (s *ownServer) begin(o *relinkerOptions) (*relink.Answer, error) {
	var policies []int
	for _, policy := range o.policies {
		index, err := strconv.Atoi(policy)
		if err != nil {
			return nil, err
		}
		policies = append(policies, index)
	}
	return s.Relinker().Take(o.step, policies, o.devices)
}

func (s *ownServer) look() (*relink.Answer, error) { return s.Relinker().Progress(), nil }

func (s *ownServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.Shutdown(ctx)
}
