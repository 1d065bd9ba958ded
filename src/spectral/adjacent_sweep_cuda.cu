#include <memory>

#include "spectral/simt/cuda_check.hpp"
#include "spectral/simt/cuda_devices.hpp"

// Launches and copies only; the kernels' bodies are in spectral/simt and run in the tests of the host too.

namespace rope::spectral::simt {
namespace {

class CudaDevice : public SweepDevice {
 public:
  explicit CudaDevice(int index) : index_(index) {
    enter();
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    name_ = properties.name;
    shared_memory_ = properties.sharedMemPerBlockOptin;
    for (auto& stream : streams_) stream = std::make_unique<CudaStream>(index);
    allow_shared_memory<SweepKernel<false>>();
    allow_shared_memory<SweepKernel<true>>();
  }

  std::string name() const override { return name_ + " (CUDA device " + std::to_string(index_) + ")"; }
  std::size_t shared_memory() const override { return shared_memory_; }

  void* allocate(std::size_t bytes) override {
    enter();
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  void* allocate_pinned(std::size_t bytes) override {
    enter();
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    return memory;
  }
  void release(void* memory) noexcept override { static_cast<void>(cudaFree(memory)); }
  void release_pinned(void* memory) noexcept override { static_cast<void>(cudaFreeHost(memory)); }

  void upload(int stream, void* to, const void* from, std::size_t bytes) override {
    enter();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, streams_[stream]->get()),
          "copy to the device");
  }
  void download(int stream, void* to, const void* from, std::size_t bytes) override {
    enter();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, streams_[stream]->get()),
          "copy from the device");
  }
  void launch(int stream, int groups, int chunks, const SweepKernel<false>::Args& args) override {
    start<SweepKernel<false>>(stream, dim3(groups, chunks), args, "sweep kernel");
  }
  void launch(int stream, int groups, int chunks, const SweepKernel<true>::Args& args) override {
    start<SweepKernel<true>>(stream, dim3(groups, chunks), args, "reversal kernel");
  }
  void launch(int stream, int groups, const FoldKernel::Args& args) override {
    start<FoldKernel>(stream, dim3(groups), args, "fold kernel");
  }
  void synchronize(int stream) override {
    enter();
    check(cudaStreamSynchronize(streams_[stream]->get()), "waiting for the device");
  }

 private:
  void check(cudaError_t status, const char* call) const { cuda_check(status, call, index_); }
  void enter() const { check(cudaSetDevice(index_), "cudaSetDevice"); }

  template <class Kernel>
  void allow_shared_memory() const {
    check(cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_memory_)),
          "cudaFuncSetAttribute");
  }

  template <class Kernel>
  void start(int stream, dim3 grid, const typename Kernel::Args& args, const char* name) const {
    enter();
    run_kernel<Kernel><<<grid, Kernel::kThreads, shared_bytes<Kernel>(args), streams_[stream]->get()>>>(args);
    check(cudaGetLastError(), name);
  }

  int index_;
  std::string name_;
  std::size_t shared_memory_ = 0;
  std::unique_ptr<CudaStream> streams_[kStreams];
};

}  // namespace

std::vector<std::unique_ptr<SweepDevice>> open_cuda_devices(const std::vector<int>& indexes) {
  // Threads that wait for a device sleep: the cores have coefficients to compute.
  static_cast<void>(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  static_cast<void>(cudaGetLastError());
  std::vector<std::unique_ptr<SweepDevice>> devices;
  for (const int index : indexes) devices.push_back(std::make_unique<CudaDevice>(index));
  return devices;
}

}  // namespace rope::spectral::simt
