module martlet/object-server

go 1.24.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/gobwas/ws v1.4.0
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/kisielk/og-rek v1.3.0
	github.com/prometheus/client_golang v1.23.2
	github.com/tinylib/msgp v1.6.5
	golang.org/x/sys v0.36.0
	golang.org/x/time v0.12.0
	gopkg.in/ini.v1 v1.67.3
	pgregory.net/rapid v1.3.0
)

require (
	github.com/aristanetworks/gomap v0.0.0-20230726210543-f4e41046dced // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/pool v0.2.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.66.1 // indirect
	github.com/prometheus/procfs v0.16.1 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	golang.org/x/exp v0.0.0-20230725093048-515e97ebf090 // indirect
	golang.org/x/mod v0.18.0 // indirect
	golang.org/x/tools v0.22.0 // indirect
	google.golang.org/protobuf v1.36.8 // indirect
)

tool github.com/tinylib/msgp
