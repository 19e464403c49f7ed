! Burgers' equation, u_t + (u^2/2)_x = nu u_xx, on a ring: a fine grid teaches a network, while it
! runs, what a coarse grid misses; then the coarse grid runs with the network. As burgers.c.
!
!     gfortran -O2 burgers.f90 $(pkg-config --cflags --libs dlc-fortran) -o burgers && ./burgers
!
! Arguments: the model's file, the steps of training, a directory for the checkpoint.
program burgers
  use dlc
  use, intrinsic :: iso_fortran_env, only: real32, real64
  implicit none
  integer, parameter :: fine_cells = 256, cells = 32, ratio = fine_cells/cells, ghosts = 6, &
                        members = 8, life = 100
  real(real64), parameter :: nu = 0.02_real64, dt = 0.02_real64, two_pi = 6.283185307179586_real64
  character(len=4096) :: path = 'closure.dl', steps = '1000', run = 'run'
  type(dlc_model) :: net
  type(dlc_status) :: status
  integer :: number

  if (command_argument_count() >= 1) call get_command_argument(1, path)
  if (command_argument_count() >= 2) call get_command_argument(2, steps)
  if (command_argument_count() >= 3) call get_command_argument(3, run)
  read (steps, *) number
  call dlc_open(net, trim(path), status, device='cpu', threads=1, batch=members, train=.true., &
                settings=['lr=0.003        ', 'lr_schedule=none'])
  call check()
  call train(number)
  call compare()
  call net%save(trim(run), status)
  call check()
  call dlc_close(net)

contains

  subroutine check()
    if (status%code == 0) return
    print '(a)', trim(status%message)
    error stop 1
  end subroutine check

  ! ---- the solver: Heun's method in `parts` parts, with a tendency `add` ----

  pure function slope(u, add) result(s)
    real(real64), intent(in) :: u(:), add(:)
    real(real64) :: s(size(u)), l(size(u)), r(size(u)), dx
    dx = two_pi/size(u)
    l = cshift(u, -1)
    r = cshift(u, 1)
    s = -(r*r - l*l)/(4*dx) + nu*(l - 2*u + r)/dx**2 + add
  end function slope

  pure subroutine advance(u, parts, add)
    real(real64), intent(inout) :: u(:)
    integer, intent(in) :: parts
    real(real64), intent(in) :: add(:)
    real(real64) :: a(size(u)), step
    integer :: part
    step = dt/parts
    do part = 1, parts
      a = slope(u, add)
      u = u + step/2*(a + slope(u + step*a, add))
    end do
  end subroutine advance

  pure function coarsened(u) result(c)
    real(real64), intent(in) :: u(fine_cells)
    real(real64) :: c(cells)
    c = sum(reshape(u, [ratio, cells]), dim=1)/ratio
  end function coarsened

  subroutine begin(u, seed)
    real(real64), intent(out) :: u(fine_cells)
    integer, intent(inout) :: seed
    real(real64) :: height, phase
    integer :: mode, i
    u = 0
    do mode = 1, 4
      height = random(seed)
      phase = random(seed)
      u = u + height/mode*[(sin(two_pi*(real(mode*i, real64)/fine_cells + phase)), &
                            i=0, fine_cells - 1)]
    end do
  end subroutine begin

  real(real64) function random(seed)
    integer, intent(inout) :: seed
    seed = modulo(1664*seed + 10139, 65536)
    random = real(seed, real64)/65536
  end function random

  pure function with_ghosts(u) result(x)
    real(real64), intent(in) :: u(cells)
    real(real32) :: x(cells + 2*ghosts)
    x = real([u(cells - ghosts + 1:), u, u(:ghosts)], real32)
  end function with_ghosts

  ! ---- training, as the fine solver runs ----

  subroutine train(steps)
    integer, intent(in) :: steps
    real(real64) :: fine(fine_cells, members), before(cells), loss, left, all
    real(real64) :: zero_fine(fine_cells), zero(cells)
    real(real32) :: x(cells + 2*ghosts, 1, members), t(cells, 1, members)
    integer :: step, m, seed
    seed = 1
    left = 0
    all = 0 ! of the squares of what the coarse grid misses
    zero_fine = 0
    zero = 0
    do step = 1, steps
      do m = 1, members
        if (step == 1 .or. modulo(step + m*life/members, life) == 0) call begin(fine(:, m), seed)
        before = coarsened(fine(:, m))
        x(:, 1, m) = with_ghosts(before)
        call advance(fine(:, m), ratio, zero_fine)
        call advance(before, 1, zero)
        t(:, 1, m) = real((coarsened(fine(:, m)) - before)/dt, real32)
      end do
      call net%train_step(x, t, loss, status)
      call check()
      left = left + loss
      all = all + sum(real(t, real64)**2)/size(t)
      if (modulo(step, 100) /= 0) cycle
      print '(a, i0, a, f6.3)', 'step ', step, ', missed ', left/all
      left = 0
      all = 0
    end do
  end subroutine train

  ! ---- a flow that was not seen: the coarse solver without the network, and with it ----

  subroutine compare()
    real(real64) :: fine(fine_cells), plain(cells), closed(cells), zero_fine(fine_cells), zero(cells)
    real(real32) :: x(cells + 2*ghosts, 1, 1), y(cells, 1, 1)
    integer :: step, seed
    seed = 7
    zero_fine = 0
    zero = 0
    call begin(fine, seed)
    plain = coarsened(fine)
    closed = plain
    do step = 1, life
      x(:, 1, 1) = with_ghosts(closed)
      call net%predict(x, y, status)
      call check()
      call advance(closed, 1, real(y(:, 1, 1), real64))
      call advance(plain, 1, zero)
      call advance(fine, ratio, zero_fine)
    end do
    print '(a, f8.5, a, f8.5)', 'error of the coarse grid', norm2(plain - coarsened(fine))/ &
      sqrt(real(cells, real64)), ', with the network', norm2(closed - coarsened(fine))/ &
      sqrt(real(cells, real64))
  end subroutine compare
end program burgers
