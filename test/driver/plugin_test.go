package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	resourceapi "k8s.io/api/resource/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registrationpb "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"sigs.k8s.io/yaml"
)

// callTimeout is generous: the machine may be busy.
const callTimeout = 30 * time.Second

// plugin is the way to a driver on one node.
type plugin struct {
	driver string
	// socket is the one that it registered with.
	socket     string
	connection *grpc.ClientConn
	client     drapb.DRAPluginClient
}

// registerPlugins asks every socket in the registry that is new what it is, and tells it that it is registered; and
// forgets plugins whose socket is gone.
func (k *kubelet) registerPlugins(ctx context.Context) error {
	sockets, err := filepath.Glob(filepath.Join(k.registry(), "*.sock"))
	if err != nil {
		return err
	}
	k.mutex.Lock()
	known := make(map[string]bool)
	for driver, plugin := range k.plugins {
		if known[plugin.socket] = slices.Contains(sockets, plugin.socket); !known[plugin.socket] {
			_ = plugin.connection.Close()
			delete(k.plugins, driver)
		}
	}
	k.mutex.Unlock()
	for _, socket := range sockets {
		if known[socket] {
			continue
		}
		plugin, err := register(ctx, socket)
		if err != nil {
			if _, gone := os.Stat(socket); errors.Is(gone, os.ErrNotExist) || status.Code(err) == codes.Unavailable {
				continue // It went away meanwhile, or does not listen yet: the next round asks it.
			}
			return err
		}
		k.mutex.Lock()
		k.plugins[plugin.driver] = plugin
		k.mutex.Unlock()
	}
	return nil
}

// register does the kubelet's part of the registration at a socket.
func register(ctx context.Context, socket string) (*plugin, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	connection, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	registration := registrationpb.NewRegistrationClient(connection)
	info, err := registration.GetInfo(ctx, &registrationpb.InfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask %s what it is: %w", socket, err)
	}
	found := &plugin{driver: info.Name, socket: socket}
	status := &registrationpb.RegistrationStatus{PluginRegistered: true}
	if info.Type != registrationpb.DRAPlugin || !slices.Contains(info.SupportedVersions, drapb.DRAPluginService) {
		status = &registrationpb.RegistrationStatus{Error: fmt.Sprintf("want a %s with %s, found a %s with %q",
			registrationpb.DRAPlugin, drapb.DRAPluginService, info.Type, info.SupportedVersions)}
	} else if found.connection, err = dial(info.Endpoint); err != nil {
		return nil, err
	}
	if _, err := registration.NotifyRegistrationStatus(ctx, status); err != nil {
		return nil, fmt.Errorf("tell %s whether it is registered: %w", socket, err)
	}
	if status.Error != "" {
		return nil, fmt.Errorf("register the plugin at %s: %s", socket, status.Error)
	}
	found.client = drapb.NewDRAPluginClient(found.connection)
	return found, nil
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// reference names a claim to a driver.
func reference(claim *resourceapi.ResourceClaim) *drapb.Claim {
	return &drapb.Claim{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)}
}

func (p *plugin) prepare(ctx context.Context, claim *resourceapi.ResourceClaim) (*preparedClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := reference(claim)
	answer, err := p.client.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{name}})
	if err != nil {
		return nil, fmt.Errorf("prepare claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	own, found := answer.Claims[name.Uid]
	if !found {
		return nil, fmt.Errorf("prepare claim %s/%s: the answer of driver %s is about other claims", claim.Namespace, claim.Name, p.driver)
	}
	if own.Error != "" {
		return nil, fmt.Errorf("driver %s refuses claim %s/%s: %s", p.driver, claim.Namespace, claim.Name, own.Error)
	}
	return &preparedClaim{claim: name, driver: p.driver, devices: own.Devices}, nil
}

func (p *plugin) unprepare(ctx context.Context, claim *drapb.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := p.client.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{claim}})
	if err != nil {
		return fmt.Errorf("unprepare claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	own, found := answer.Claims[claim.Uid]
	if !found {
		return fmt.Errorf("unprepare claim %s/%s: the answer of driver %s is about other claims", claim.Namespace, claim.Name, p.driver)
	}
	if own.Error != "" {
		return fmt.Errorf("driver %s does not unprepare claim %s/%s: %s", p.driver, claim.Namespace, claim.Name, own.Error)
	}
	return nil
}

// checkAnswer is nil if the driver prepared just the devices that the scheduler chose, for the requests that it chose
// them for, and if CDI has them. It fills in the environment.
func (k *kubelet) checkAnswer(claim *resourceapi.ResourceClaim, prepared *preparedClaim) error {
	var allocated, got []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver == prepared.driver {
			share := ""
			if result.ShareID != nil {
				share = string(*result.ShareID)
			}
			// The driver is not told which alternative of a request it was.
			request, _, _ := strings.Cut(result.Request, "/")
			allocated = append(allocated, strings.Join([]string{request, result.Pool, result.Device, share}, " "))
		}
	}
	known, err := devicesInCDI(k.cdi())
	if err != nil {
		return err
	}
	for _, device := range prepared.devices {
		for _, request := range device.RequestNames {
			got = append(got, strings.Join([]string{request, device.PoolName, device.DeviceName, device.GetShareId()}, " "))
		}
		for _, id := range device.CdiDeviceIds {
			environment, found := known[id]
			if !found {
				return fmt.Errorf("claim %s/%s: no file in %s has CDI device %s", claim.Namespace, claim.Name, k.cdi(), id)
			}
			prepared.environment = append(prepared.environment, environment...)
		}
	}
	slices.Sort(allocated)
	slices.Sort(got)
	if !slices.Equal(allocated, got) {
		return fmt.Errorf("claim %s/%s has devices %q (request, pool, device, share), but driver %s prepared %q",
			claim.Namespace, claim.Name, allocated, prepared.driver, got)
	}
	return nil
}

// devicesInCDI is the environment of each device that the files in a folder describe, by its qualified name.
func devicesInCDI(folder string) (map[string][]string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	devices := make(map[string][]string)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // A claim was unprepared meanwhile, or a file is being replaced.
		}
		if err != nil {
			return nil, err
		}
		var spec struct {
			Kind    string `json:"kind"`
			Devices []struct {
				Name           string `json:"name"`
				ContainerEdits struct {
					Env []string `json:"env"`
				} `json:"containerEdits"`
			} `json:"devices"`
		}
		if err := yaml.Unmarshal(data, &spec); err != nil {
			return nil, fmt.Errorf("CDI file %s: %w", file.Name(), err)
		}
		for _, device := range spec.Devices {
			devices[spec.Kind+"="+device.Name] = device.ContainerEdits.Env
		}
	}
	return devices, nil
}
