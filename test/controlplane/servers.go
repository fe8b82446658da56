package controlplane

import (
	"context"
	"errors"
	"fmt"
)

// startServers starts etcd and the API server and fills c.apiServer.
func (c *ControlPlane) startServers(ctx context.Context, credentials credentials) error {
	socket, remove, err := etcdSocket(c.folder)
	if err != nil {
		return err
	}
	c.onStop(remove)
	if c.options.Restartable {
		return c.startParts(ctx, credentials, socket)
	}
	if c.etcd, err = startEtcd(ctx, c.folder, socket, c.log); err != nil {
		return err
	}
	c.onStop(c.etcd.stop)
	restore, err := redirectEtcdClients(c.log)
	if err != nil {
		return err
	}
	c.onStop(restore)
	if c.options.Release != "" {
		return c.startOtherAPIServer(ctx, credentials, socket)
	}
	listener, err := listenLoopback(c.folder.port())
	if err != nil {
		return err
	}
	c.apiServer = &apiServer{credentials: credentials, port: portOf(listener)}
	server, err := startAPIServer(listener, credentials, etcdEndpoint(socket), c.options)
	if err != nil {
		return err
	}
	c.onStop(server.stop)
	go c.watchComponent(c.etcd.component)
	go c.watchComponent(server)
	return c.waitAPIServer(ctx, server)
}

// startParts is startServers for servers in processes of their own.
func (c *ControlPlane) startParts(ctx context.Context, credentials credentials, socket string) error {
	if !runPartWasCalled.Load() {
		return errors.New("Options.Restartable: this program does not call controlplane.RunPart; call it first of all in main or TestMain, or the servers would run the program itself")
	}
	listener, err := listenLoopback(c.folder.port())
	if err != nil {
		return err
	}
	c.apiServer = &apiServer{credentials: credentials, port: portOf(listener)}
	if err := listener.Close(); err != nil {
		return err
	}
	release, err := reservePort(c.apiServer.port)
	if err != nil {
		return fmt.Errorf("keep port %d on 127.0.0.1 for the API server: %w", c.apiServer.port, err)
	}
	c.onStop(release)
	spec := partSpec{Dir: c.folder.root, LogFile: c.log.path, Options: c.options, Socket: socket, Port: c.apiServer.port}
	answers := func(context.Context, *component) error { return nil }
	c.etcdPart = &Part{name: "etcd", spec: spec, ready: answers, ended: c.componentEnded}
	c.apiServerPart = &Part{name: "kube-apiserver", spec: spec, ready: c.waitAPIServer, ended: c.componentEnded}
	for _, part := range []*Part{c.etcdPart, c.apiServerPart} {
		c.onStop(part.Stop)
		if err := part.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Etcd returns etcd's process, nil without Options.Restartable. What it has
// stored outlives it.
func (c *ControlPlane) Etcd() *Part { return c.etcdPart }

// APIServer returns the API server's process, nil without Options.Restartable.
// It has the same address after each start.
func (c *ControlPlane) APIServer() *Part { return c.apiServerPart }

// Compact removes the history from etcd: reading or watching from an earlier
// revision than the present one, which it returns, is an error there. The API
// server's own cache still answers watches that begin in what it has seen; see
// ForgetHistory.
func (c *ControlPlane) Compact(ctx context.Context) (revision int64, err error) {
	if c.etcdPart != nil {
		return c.etcdPart.compact(ctx)
	}
	return c.etcd.compact(ctx)
}

// ForgetHistory leaves nothing of the past but the objects as they are: it kills
// the API server, compacts etcd and starts the API server, whose cache of events
// is empty then. Watches that have not seen the last write end with 410 Gone, so
// that clients have to list again. It needs Options.Restartable.
func (c *ControlPlane) ForgetHistory(ctx context.Context) error {
	if c.apiServerPart == nil {
		return errors.New("forget history: the API server cannot be restarted; set Options.Restartable")
	}
	if err := c.apiServerPart.Kill(); err != nil {
		return err
	}
	if _, err := c.Compact(ctx); err != nil {
		return err
	}
	return c.apiServerPart.Start(ctx)
}
