package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxSocketPath is the longest path of a Unix socket that all supported
// systems take, in bytes (sun_path is 104 bytes on the BSDs, 108 on Linux).
const maxSocketPath = 100

// apiServer is the address of kube-apiserver, and the credentials for it.
type apiServer struct {
	credentials credentials
	port        int
}

func (s *apiServer) url() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// startServers starts etcd and kube-apiserver and fills c.apiServer.
func (c *ControlPlane) startServers(ctx context.Context, credentials credentials) error {
	socket, remove, err := etcdSocket(c.folder)
	if err != nil {
		return err
	}
	c.onStop(remove)
	port, release, err := keepPort(c.folder.port())
	if err != nil {
		return err
	}
	c.onStop(release)
	c.apiServer, c.etcdEndpoint = &apiServer{credentials: credentials, port: port}, etcdEndpoint(socket)
	c.etcd, err = c.newPart("etcd", []string{"--data-dir=" + c.folder.etcd(), "--socket=" + socket, "--v=" + strconv.Itoa(c.options.LogVerbosity)},
		func(ctx context.Context, process *component) error { return waitEtcd(ctx, process, socket) })
	if err != nil {
		return err
	}
	flags, err := c.apiServerFlags(credentials)
	if err != nil {
		return err
	}
	c.kubeAPIServer, err = c.newPart("kube-apiserver", flags, c.waitAPIServer)
	if err != nil {
		return err
	}
	if err := c.startPart(ctx, c.etcd); err != nil {
		return err
	}
	return c.startPart(ctx, c.kubeAPIServer)
}

// startControllers starts kube-controller-manager. kube-apiserver has to be ready.
func (c *ControlPlane) startControllers(ctx context.Context, credentials credentials) error {
	flags, err := c.controllerFlags(credentials)
	if err != nil {
		return err
	}
	if c.controllers, err = c.newPart("kube-controller-manager", flags, c.waitControllers); err != nil {
		return err
	}
	return c.startPart(ctx, c.controllers)
}

// startPart starts a part, which Stop ends. Nobody needs what is in a temporary folder afterwards, so that
// parts are killed there.
func (c *ControlPlane) startPart(ctx context.Context, part *Part) error {
	end := part.Stop
	if c.folder.temporary {
		end = part.Kill
	}
	c.onStop(end)
	return part.Start(ctx)
}

// newPart returns a server with its flags: bin/playground, or an executable of another release.
func (c *ControlPlane) newPart(name string, flags []string, ready func(context.Context, *component) error) (*Part, error) {
	binary, args := "playground", append([]string{name}, flags...)
	if c.options.Release != "" && name != "etcd" {
		binary, args = fmt.Sprintf("compat/%s-%s", name, c.options.Release), flags
	}
	path, err := FindBinary(binary)
	if err != nil {
		return nil, err
	}
	return &Part{name: name, path: path, args: args, logFile: c.log.path, ready: ready, ended: c.componentEnded}, nil
}

// Etcd returns etcd's process. What it has stored outlives it.
func (c *ControlPlane) Etcd() *Part { return c.etcd }

// APIServer returns the API server's process. It has the same address after each start.
func (c *ControlPlane) APIServer() *Part { return c.kubeAPIServer }

// Compact removes the history from etcd: reading or watching from an earlier revision than the present
// one is an error there. The API server's own cache still answers watches that begin in what it has
// seen; see ForgetHistory.
func (c *ControlPlane) Compact(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, c.etcd.path, "compact", "--endpoint="+c.etcdEndpoint).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compact etcd: %w: %s", err, output)
	}
	return nil
}

// ForgetHistory leaves nothing of the past but the objects as they are: it kills
// the API server, compacts etcd and starts the API server, whose cache of events
// is empty then. Watches that have not seen the last write end with 410 Gone, so
// that clients have to list again.
func (c *ControlPlane) ForgetHistory(ctx context.Context) error {
	if err := c.kubeAPIServer.Kill(); err != nil {
		return err
	}
	if err := c.Compact(ctx); err != nil {
		return err
	}
	return c.kubeAPIServer.Start(ctx)
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

// waitEtcd waits until somebody listens on etcd's socket.
func waitEtcd(ctx context.Context, process *component, socket string) error {
	return waitFor(ctx, process, 5*time.Millisecond, "listen", func(context.Context) error {
		connection, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// keepPort chooses a port on 127.0.0.1 for the API server, and keeps it while that is down: the one that portFile
// names, so that clients of an earlier run find the server again, or else a free one, which it writes to portFile.
func keepPort(portFile string) (port int, release func() error, err error) {
	listener, err := listenLoopback(portFile)
	if err != nil {
		return 0, nil, err
	}
	port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, nil, err
	}
	if release, err = reservePort(port); err != nil {
		return 0, nil, fmt.Errorf("keep port %d on 127.0.0.1 for the API server: %w", port, err)
	}
	return port, release, nil
}

func listenLoopback(portFile string) (net.Listener, error) {
	earlier, err := os.ReadFile(portFile)
	if err == nil {
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strings.TrimSpace(string(earlier)))
		if err == nil {
			return listener, nil
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port on 127.0.0.1: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(portFile, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
