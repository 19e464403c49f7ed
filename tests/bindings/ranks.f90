! Two ranks that train one network together, by dlc_open's mpi_comm: as one rank with all samples.
! ranks MODEL, a model of an input and a target (W, 1, N). Prints "N passed, M failed".
program ranks
  use mpi
  use dlc
  use, intrinsic :: iso_fortran_env, only: real32, real64
  implicit none
  integer, parameter :: each = 2, width = 16, steps = 5
  integer :: passed = 0, failed = 0, rank, size, code, i
  character(len=4096) :: path
  character(len=16), parameter :: kept(2) = [character(len=16) :: 'lr=0.01', 'lr_schedule=none']
  type(dlc_model) :: net, alone
  type(dlc_status) :: status
  real(real32), allocatable :: u(:, :, :), t(:, :, :)
  real(real32) :: w(3, 1, 4), its(3, 1, 4)
  real(real64) :: loss, expected

  call get_command_argument(1, path)
  call dlc_open(net, trim(path), status, mpi_comm=MPI_COMM_WORLD)
  call check(status%code == 2 .and. index(status%message, 'MPI_Init') > 0, 'before MPI_Init')
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, size, code)
  allocate (u(width, 1, each*size), t(width, 1, each*size))
  u = reshape([(real(mod(i, 7)), i=1, width*each*size)], shape(u))
  t = 0.5*u - 1

  call dlc_open(net, trim(path), status, mpi_comm=MPI_COMM_NULL)
  call check(status%code == 2 .and. index(status%message, 'MPI_COMM_NULL') > 0, 'no communicator')
  call dlc_open(net, trim(path), status, mpi_comm=123456)
  call check(status%code == 2 .and. index(status%message, 'MPI') > 0, 'a handle of nothing')

  call dlc_open(alone, trim(path), status, batch=each*size, threads=1, device='cpu', train=.true., &
                settings=kept)
  call check(status%code == 0, 'opens alone')
  call dlc_open(net, trim(path), status, batch=each, threads=1, train=.true., settings=kept, &
                mpi_comm=MPI_COMM_WORLD)
  call check(status%code == 0, 'opens with all ranks')
  do i = 1, steps
    call alone%train_step(u, t, expected, status)
    call net%train_step(u(:, :, rank*each + 1:(rank + 1)*each), &
                        t(:, :, rank*each + 1:(rank + 1)*each), loss, status)
    call check(status%code == 0 .and. abs(loss - expected) < 1e-6*expected, 'the loss of one rank')
  end do
  call net%get('a.weight', w, status)
  call alone%get('a.weight', its, status)
  call check(maxval(abs(w - its)) < 1e-5, 'the weights of one rank')
  its = w
  call MPI_Bcast(its, product(shape(its)), MPI_REAL, 0, MPI_COMM_WORLD, code)
  call check(all(its == w), 'the same bits on all ranks')
  call dlc_close(net)
  call dlc_close(alone)
  call MPI_Finalize(code)
  print '(i0, a, i0, a)', passed, ' passed, ', failed, ' failed'
  if (failed > 0) stop 1

contains

  subroutine check(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    if (ok) then
      passed = passed + 1
    else
      failed = failed + 1
      print '(3a, i0, 1x, a)', 'failed: ', what, ': ', status%code, trim(status%message)
    end if
  end subroutine check
end program ranks
