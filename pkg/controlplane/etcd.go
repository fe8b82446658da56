package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// maxSocketPath is the longest path of a Unix socket that all supported
// systems take, in bytes (sun_path is 104 bytes on the BSDs, 108 on Linux).
const maxSocketPath = 100

// etcdQuota is the size at which etcd refuses writes, in bytes. It is etcd's
// recommended maximum: thousands of ResourceSlices and their history fit.
const etcdQuota = 8 << 30

// etcdServer is an etcd with one member. It listens on a Unix socket only:
// it has no authentication of its own, and the socket is in a folder that
// nobody else can enter.
type etcdServer struct {
	server   *embed.Etcd
	endpoint string
	// socketDir is a temporary folder for the socket, if the data folder's
	// path is too long for one.
	socketDir string
}

// startEtcd starts etcd on the data folder and waits until it answers.
func startEtcd(ctx context.Context, d dataFolder, log *componentLog) (*etcdServer, error) {
	e := &etcdServer{}
	socket := filepath.Join(d.root, "etcd.sock")
	if len(socket) > maxSocketPath {
		dir, err := os.MkdirTemp("", "quartermaster-etcd-")
		if err != nil {
			return nil, fmt.Errorf("start etcd: make a folder for its socket: %w", err)
		}
		e.socketDir, socket = dir, filepath.Join(dir, "etcd.sock")
	}
	endpoint := url.URL{Scheme: "unix", Path: socket}
	e.endpoint = endpoint.String()

	cfg := embed.NewConfig()
	cfg.Dir = d.etcd()
	cfg.ListenClientUrls = []url.URL{endpoint}
	// etcd insists on a host and a port in what it tells others, but there are
	// no others: a single member needs no peers, and clients get the endpoint.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls = nil
	cfg.QuotaBackendBytes = etcdQuota
	// Survives the death of the process, but not of the machine: a fair price
	// for tests and playgrounds that write thousands of objects.
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.etcdLogger())

	var err error
	if e.server, err = embed.StartEtcd(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", d.etcd(), err), e.removeSocketDir())
	}
	select {
	case <-e.server.Server.ReadyNotify():
		return e, nil
	case err := <-e.server.Err():
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", d.etcd(), err), e.stop())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w before it was ready", d.etcd(), context.Cause(ctx)), e.stop())
	}
}

// stop ends etcd. All clients have to be gone, or it waits for them for seconds.
func (e *etcdServer) stop() error {
	e.server.Close()
	return e.removeSocketDir()
}

func (e *etcdServer) removeSocketDir() error {
	if e.socketDir == "" {
		return nil
	}
	return os.RemoveAll(e.socketDir)
}
