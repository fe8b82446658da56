package controlplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	cmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	cmconfig "k8s.io/kubernetes/pkg/controller/apis/config"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// controllerNames returns the controllers of kube-controller-manager that run: those
// that claims and the common workloads need, and those that every namespace needs
// before a pod can be created in it.
func controllerNames(nodeLifecycle bool) []string {
	enabled := []string{
		names.ResourceClaimController,
		names.DeviceTaintEvictionController,
		names.GarbageCollectorController,
		names.PodGarbageCollectorController,
		names.PodGroupProtectionController, // only with the gate GenericWorkload
		names.DeploymentController,
		names.ReplicaSetController,
		names.StatefulSetController,
		names.DaemonSetController,
		names.JobController,
		names.CronJobController,
		names.TTLAfterFinishedController,
		names.DisruptionController,
		names.NamespaceController,
		names.ResourceQuotaController,
		names.ServiceAccountController,
		names.RootCACertificatePublisherController,
		names.ClusterRoleAggregationController,
	}
	if nodeLifecycle {
		enabled = append(enabled, names.NodeLifecycleController, names.TaintEvictionController)
	}
	return enabled
}

// controllerShutdownTimeout is the time limit for the controllers to finish their work.
const controllerShutdownTimeout = 10 * time.Second

// startControllers builds the controllers and starts them. The API server has
// to be ready.
//
// kube-controller-manager's own Run cannot be used: it takes process-wide
// names that it never releases (an informer name, a configz entry), so that
// it works once per process. Everything below Run is upstream's.
func startControllers(cfg *rest.Config, c credentials, nodeLifecycle bool) (*component, error) {
	ctx, cancel := context.WithCancel(context.Background())
	controllerCtx, err := newControllerContext(ctx, cfg, c, controllerNames(nodeLifecycle))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("prepare controllers: %w", err)
	}
	descriptors := app.NewControllerDescriptors()
	// Nothing needs tokens in secrets: pods and this package use the
	// TokenRequest API.
	delete(descriptors, names.ServiceAccountTokenController)
	controllers, err := app.BuildControllers(ctx, controllerCtx, descriptors, nil, noHealthChecks{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("prepare controllers: %w", err)
	}
	return runComponent("controllers", cancel, func() error {
		controllerCtx.InformerFactory.Start(ctx.Done())
		defer controllerCtx.InformerFactory.Shutdown()
		controllerCtx.ObjectOrMetadataInformerFactory.Start(ctx.Done())
		close(controllerCtx.InformersStarted)
		if !app.RunControllers(ctx, controllerCtx, controllers, app.ControllerStartJitter, controllerShutdownTimeout) {
			return fmt.Errorf("controllers are still busy %s after they were told to end", controllerShutdownTimeout)
		}
		return nil
	}), nil
}

// newControllerContext returns the context that kube-controller-manager shares among its controllers.
func newControllerContext(ctx context.Context, cfg *rest.Config, c credentials, enabled []string) (app.ControllerContext, error) {
	config, err := cmoptions.NewDefaultComponentConfig()
	if err != nil {
		return app.ControllerContext{}, err
	}
	config.Generic.Controllers = enabled
	config.SAController.RootCAFile = c.clusterCA.certFile

	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "shared-informers"))
	if err != nil {
		return app.ControllerContext{}, err
	}
	metadataClient, err := metadata.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "metadata-informers"))
	if err != nil {
		return app.ControllerContext{}, err
	}
	resync := resyncPeriod(config)
	typed := informers.NewSharedInformerFactoryWithOptions(client, resync(), informers.WithTransform(dropManagedFields))
	untyped := metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, resync(), metadatainformer.WithTransform(dropManagedFields))

	controllerCtx := app.ControllerContext{
		ClientBuilder:                   clientbuilder.SimpleControllerClientBuilder{ClientConfig: cfg},
		InformerFactory:                 typed,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(typed, untyped),
		ComponentConfig:                 config,
		RESTMapper:                      restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(client.Discovery())),
		InformersStarted:                make(chan struct{}),
		ResyncPeriod:                    resync,
		ControllerManagerMetrics:        controllerMetrics,
	}
	controllerCtx.GraphBuilder = garbagecollector.NewDependencyGraphBuilder(ctx, metadataClient, controllerCtx.RESTMapper,
		ignoredResources(config), controllerCtx.ObjectOrMetadataInformerFactory, controllerCtx.InformersStarted)
	// APIs come and go with CustomResourceDefinitions.
	go wait.Until(controllerCtx.RESTMapper.Reset, 30*time.Second, ctx.Done())
	return controllerCtx, nil
}

// ignoredResources are the resources that the garbage collector leaves alone.
func ignoredResources(config cmconfig.KubeControllerManagerConfiguration) map[schema.GroupResource]struct{} {
	ignored := map[schema.GroupResource]struct{}{}
	for _, r := range config.GarbageCollectorController.GCIgnoredResources {
		ignored[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = struct{}{}
	}
	return ignored
}

// resyncPeriod spreads the periodic resyncs of informers over time.
func resyncPeriod(config cmconfig.KubeControllerManagerConfiguration) func() time.Duration {
	return func() time.Duration {
		return time.Duration((1 + rand.Float64()) * float64(config.Generic.MinResyncPeriod.Duration))
	}
}

// dropManagedFields saves memory: no controller reads them.
func dropManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// noHealthChecks accepts the health checks of the controllers and serves none of them:
// controllers live and die with the process.
type noHealthChecks struct{}

func (noHealthChecks) AddHealthChecker(...healthz.HealthChecker) {}

// controllerMetrics exist once per process, as all Prometheus metrics do.
var controllerMetrics = controllersmetrics.NewControllerManagerMetrics("kube-controller-manager")
