package controlplane

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
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
	*component
	server *embed.Etcd
}

// etcdSocket returns the path of etcd's socket: in the data folder, or in a
// temporary folder if the data folder's path is too long for one. remove
// deletes that.
func etcdSocket(d dataFolder) (path string, remove func() error, err error) {
	path = filepath.Join(d.root, "etcd.sock")
	if len(path) <= maxSocketPath {
		return path, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "quartermaster-etcd-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the socket of etcd: %w", err)
	}
	return filepath.Join(dir, "etcd.sock"), func() error { return os.RemoveAll(dir) }, nil
}

// etcdEndpoint returns the URL of an etcd that listens on a socket.
func etcdEndpoint(socket string) string {
	endpoint := url.URL{Scheme: "unix", Path: socket}
	return endpoint.String()
}

// startEtcd starts etcd on the data folder and waits until it answers.
func startEtcd(ctx context.Context, d dataFolder, socket string, log *componentLog) (*etcdServer, error) {
	cfg := embed.NewConfig()
	cfg.Dir = d.etcd()
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	// etcd insists on a host and a port to advertise. Nobody uses them: a single
	// member has no peers, and clients get the endpoint.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls = nil
	cfg.QuotaBackendBytes = etcdQuota
	// Data survives a crash of the process, but not of the machine. That makes
	// thousands of writes by tests and playgrounds fast.
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.etcdLogger())

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", d.etcd(), err)
	}
	select {
	case <-server.Server.ReadyNotify():
		return &etcdServer{component: runEtcd(server), server: server}, nil
	case err = <-server.Err():
	case <-ctx.Done():
		err = fmt.Errorf("%w before it was ready", context.Cause(ctx))
	}
	server.Close()
	return nil, fmt.Errorf("start etcd in %s: %w", d.etcd(), err)
}

// runEtcd makes a component of a running etcd. All clients have to be gone when it
// is stopped, or else it waits for them for seconds.
func runEtcd(server *embed.Etcd) *component {
	ctx, cancel := context.WithCancel(context.Background())
	return runComponent("etcd", cancel, func() error {
		defer server.Close()
		select {
		case err := <-server.Err():
			return err
		case <-ctx.Done():
			return nil
		}
	})
}

// compact removes the history up to the present from etcd and returns the
// revision that is now the oldest one.
func (e *etcdServer) compact(ctx context.Context) (int64, error) {
	store := e.server.Server.KV()
	revision := store.Rev()
	if store.FirstRev() == revision {
		return revision, nil // Nothing was written since the last time.
	}
	client := v3client.New(e.server.Server)
	defer client.Close()
	if _, err := client.Compact(ctx, revision); err != nil {
		return 0, fmt.Errorf("compact etcd at revision %d: %w", revision, err)
	}
	return revision, nil
}
